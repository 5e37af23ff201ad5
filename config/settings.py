"""The settings: one frozen object, read once at start and handed on explicitly.

Variables `TURNOUT_*` (nested with `__`) come before `turnout.toml` in the home folder, which comes before the defaults.
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from turnout.config.embedded import embedded_broker_url, embedded_database_url
from turnout.config.errors import SettingsError
from turnout.config.urls import passwords_in

ENV_PREFIX = "TURNOUT_"
#: Variables that hold credentials: code of DAG authors must not see them.
SECRET_VARIABLES = ("TURNOUT_DATABASE_URL", "TURNOUT_BROKER_URL", "TURNOUT_LOGS_URL")
#: Variables of the test suite, which are not settings.
TEST_PREFIX = "TURNOUT_TEST_"

DATABASE_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
BROKER_SCHEMES = ("redis", "rediss", "redis+socket", "valkey", "amqp", "amqps")

#: What a DAG's backfills get beside its other runs: enough to come along, and little enough not to be felt.
BACKFILL_SHARE = 0.25

#: For a warning to arrive and be acted upon, in seconds.
_WARNING_WAY_S = 1.0
#: A worker is warned after a third of its lease at the earliest: it renews a good deal more often.
_LARGEST_WARNING = 2 / 3

Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A group of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class SchedulerSettings(Section):
    """How a scheduler behaves."""

    lease_s: Seconds = Field(10, description="A scheduler or DAG processor that renews no lease for so long is dead.")
    repair_interval_s: Seconds = Field(2, description="Time between two passes of the reaper.")
    sweep_interval_s: Seconds = Field(30, description="Time between two looks at every active run (lost wake-ups).")
    message_patience_s: Seconds = Field(
        10, description="A message this long unclaimed is compared with what the broker holds."
    )
    batch_size: Count = Field(500, description="Most task instances that one step of the loop takes in hand at once.")
    parallelism: Count | None = Field(
        None, description="Most attempts queued and running at the same time, over all schedulers. Unset: no limit."
    )
    backfill_share: float = Field(
        BACKFILL_SHARE,
        gt=0,
        lt=1,
        description="Part of a DAG's `max_active_runs` that is kept for its backfills while they want it.",
    )
    max_infra_retries: int = Field(
        3, ge=0, description="Attempts lost through no fault of the task (worker lost, …) before the task fails."
    )


class WorkerSettings(Section):
    """How a Celery worker behaves."""

    concurrency: Count = Field(4, description="Slots: attempts that one worker runs at the same time.")
    max_load: float | None = Field(
        None, gt=0, description="Load average of its machine above which a worker takes nothing new. Unset: no limit."
    )
    max_memory_mb: Count | None = Field(
        None, description="Resident memory (MiB) of a worker above which it takes nothing new. Unset: no limit."
    )
    lease_s: Seconds = Field(15, description="A worker that has not renewed its lease for so long is dead.")
    kill_grace_s: Seconds = Field(5, description="Time between asking an attempt to stop and killing it.")
    import_timeout_s: Seconds = Field(30, description="Longest import of a DAG file by a worker.")
    callback_timeout_s: Seconds = Field(60, description="Longest time for one callback; then it is killed.")
    max_tasks_per_child: Count = Field(500, description="Attempts after which a child process is replaced.")
    max_log_per_attempt_mb: Count = Field(
        50, description="Largest log (MiB) of an attempt; what it says beyond is not kept, and the task goes on."
    )
    max_log_spool_mb: Count = Field(
        1024, description="Logs (MiB) kept for `logs_url` while it is away; beyond that the oldest are given up."
    )
    max_memory_per_child_mb: Count = Field(1024, description="Resident memory (MiB) after which a child is replaced.")


class ProcessorSettings(Section):
    """How the DAG processor behaves."""

    import_timeout_s: Seconds = Field(30, description="Longest time that one DAG file may take to import.")
    reparse_interval_s: Seconds = Field(3600, description="Age after which an unchanged file is parsed again.")
    scan_interval_s: Seconds = Field(30, description="Time between two listings of the folder (missed file events).")
    parallel: Count = Field(2, description="Files parsed at the same time.")


class XComSettings(Section):
    """Limits of XCom."""

    max_bytes: Count = Field(262_144, description="Largest value of one XCom as JSON, in bytes.")


class LogSettings(Section):
    """How the processes log."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is printed.")
    format: Literal["auto", "text", "json"] = Field("auto", description="`auto`: text on a terminal, JSON elsewhere.")


class Settings(Section):
    """All settings of one Turnout installation."""

    home: Path = Field(Path("~/turnout"), description="Folder of everything Turnout writes on this machine.")
    database_url: SecretStr | None = Field(
        None, description="PostgreSQL URL of the metadata database. Unset: the embedded server in the home folder."
    )
    broker_url: SecretStr | None = Field(
        None, description="Redis, Valkey or RabbitMQ URL. Unset: the embedded server in the home folder."
    )
    dags_folder: Path | None = Field(None, description="Folder of the DAG files. Unset: `dags` in the home folder.")
    logs_folder: Path | None = Field(None, description="Folder of the task logs. Unset: `logs` in the home folder.")
    logs_url: SecretStr | None = Field(
        None, description="Where workers send task logs (`s3://…`, `file://…`). Unset: they stay in the folder of logs."
    )
    dags_are_paused_at_creation: bool = Field(True, description="Whether a DAG seen for the first time is paused.")
    scheduler: SchedulerSettings = SchedulerSettings()
    worker: WorkerSettings = WorkerSettings()
    processor: ProcessorSettings = ProcessorSettings()
    xcom: XComSettings = XComSettings()
    log: LogSettings = LogSettings()

    @property
    def database(self) -> SecretStr:
        """The URL of the metadata database: the one that was set, or that of the embedded server."""
        return self.database_url or SecretStr(embedded_database_url(self.home))

    @property
    def broker(self) -> SecretStr:
        """The URL of the broker: the one that was set, or that of the embedded server."""
        return self.broker_url or SecretStr(embedded_broker_url(self.home))

    def passwords(self) -> Iterator[str]:
        """Yield the passwords in these settings: nobody must read them in a log."""
        for url in (self.database_url, self.broker_url, self.logs_url):
            if url is not None:
                yield from passwords_in(url.get_secret_value())

    @property
    def warning_s(self) -> float:
        """How long before the end of its lease a worker is warned: enough to hear of it, and to end its attempts."""
        needed_s = self.worker.kill_grace_s + self.scheduler.repair_interval_s + _WARNING_WAY_S
        return min(needed_s, self.worker.lease_s * _LARGEST_WARNING)

    @property
    def dags_path(self) -> Path:
        """The folder of the DAG files."""
        return (self.dags_folder or self.home / "dags").expanduser()

    @property
    def logs_path(self) -> Path:
        """The folder of the task logs."""
        return (self.logs_folder or self.home / "logs").expanduser()


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of this process.

    Args:
        environ: the environment to read; that of the process by default.

    Raises:
        SettingsError: a key is unknown, a value is wrong, or `turnout.toml` cannot be read. The message names each
            faulty key, where it was set, and what it may be.
    """
    environ = os.environ if environ is None else environ
    variables = _from_environment(environ)
    home = Path(str(variables.get("home", Settings.model_fields["home"].default))).expanduser().absolute()
    toml_path = home / "turnout.toml"
    values = _merge(_from_toml(toml_path), variables)
    _refuse_unknown(values, Settings, toml_path)
    try:
        settings = Settings.model_validate({**values, "home": home})
    except ValidationError as error:
        raise SettingsError(_explain(error, environ, toml_path)) from None
    _check_url(settings.database_url, "database_url", DATABASE_SCHEMES, "PostgreSQL 13 or later is the only database")
    if settings.logs_url is not None and "://" not in settings.logs_url.get_secret_value():
        raise SettingsError(f"{variable_name(['logs_url'])} is no URL: it needs ://, as in file:///mnt/logs.")
    _check_url(settings.broker_url, "broker_url", BROKER_SCHEMES, "the broker is Redis, Valkey or RabbitMQ")
    return settings


def variable_name(path: Iterable[str]) -> str:
    """Name the environment variable of a setting, for example `TURNOUT_SCHEDULER__LEASE_S`."""
    return ENV_PREFIX + "__".join(path).upper()


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in environ.items():
        if not name.startswith(ENV_PREFIX) or name.startswith(TEST_PREFIX):
            continue
        if any(map(_is_half, value)):
            raise SettingsError(f"{name} holds bytes that are no UTF-8: {value!r}. Choose another value.")
        *sections, key = name.removeprefix(ENV_PREFIX).lower().split("__")
        target = values
        for section in sections:
            target = target.setdefault(section, {})
            if not isinstance(target, dict):
                raise SettingsError(f"{name} clashes with {variable_name([section])}: one is a value, one a section.")
        target[key] = value
    return values


def _is_half(character: str) -> bool:
    """Tell a half of a surrogate pair, which stands for a byte of the environment that is no UTF-8."""
    return "\ud800" <= character <= "\udfff"


def _from_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"Cannot read {path}: {error}. Correct the file or move it away.") from None


def _merge(low: dict[str, Any], high: dict[str, Any]) -> dict[str, Any]:
    merged = dict(low)
    for key, value in high.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _refuse_unknown(
    values: dict[str, Any], model: type[BaseModel], toml_path: Path, path: tuple[str, ...] = ()
) -> None:
    for key, value in values.items():
        field = model.model_fields.get(key)
        if field is None:
            near = difflib.get_close_matches(key, model.model_fields, n=1)
            hint = f" Did you mean {variable_name([*path, near[0]])}?" if near else ""
            raise SettingsError(
                f"Unknown setting {'.'.join([*path, key])} ({variable_name([*path, key])} or in {toml_path}).{hint}"
            )
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section) and isinstance(value, dict):
            _refuse_unknown(value, field.annotation, toml_path, (*path, key))


def _explain(error: ValidationError, environ: Mapping[str, str], toml_path: Path) -> str:
    lines = []
    for fault in error.errors(include_url=False):
        path = [str(part) for part in fault["loc"]]
        name = variable_name(path)
        where = name if name in environ else f"{'.'.join(path)} in {toml_path}"
        given = "" if path[-1].endswith("url") else f", not {fault['input']!r}"
        message = fault["msg"][0].lower() + fault["msg"][1:]
        lines.append(f"{where}: {message}{given}.")
    return " ".join(lines)


def _check_url(url: SecretStr | None, key: str, schemes: tuple[str, ...], rule: str) -> None:
    if url is None:
        return
    scheme = _scheme(url.get_secret_value(), key)
    if scheme not in schemes:
        raise SettingsError(
            f"{variable_name([key])} has the scheme {scheme + '://' if scheme else '(none)'}; {rule}: "
            f"use {', '.join(s + '://' for s in schemes)}."
        )


def _scheme(url: str, key: str) -> str:
    """Return the scheme of a URL; what is wrong with it is not quoted, since it may hold a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise SettingsError(f"{variable_name([key])} is no URL: its host or port cannot be read.") from None
    if key == "broker_url" and "password" in parse_qs(parts.query):
        raise SettingsError(
            f"{variable_name([key])} has its password after the ?: write it before the host, user:password@."
        )
    if "@" in parts.netloc.rpartition("@")[0]:
        raise SettingsError(
            f"{variable_name([key])} has more than one @ before the path: write %40 for one in a password."
        )
    if parts.scheme and "://" not in url:
        raise SettingsError(f"{variable_name([key])} is no URL: it needs :// after {parts.scheme}.")
    return parts.scheme
