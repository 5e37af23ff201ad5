"""Write `cli.md`, `settings.md` and `states.md` in `docs/reference` from the code.

python scripts/make_reference.py            write them
python scripts/make_reference.py --check    exit with 1 when they are not up to date
"""

import sys
from collections.abc import Iterable, Iterator
from enum import Enum, EnumType
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from turnout.cli.commands import LazyCommand
from turnout.cli.main import root
from turnout.config.settings import Section, Settings, variable_name
from turnout.metadata.states import LAW, RUN_LAW, Cause, Law, mermaid

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"

CLI_HEAD = """\
# The command line

*Written by `scripts/make_reference.py` from the code.*

Every reading command takes `-o json`; the keys are those of the REST API, states are lower-case words, times are
ISO 8601 in UTC. Results go to standard output, remarks and errors to standard error. In a pipe or a file each row of a
table is one line; on a terminal that is too narrow for a table, each row is a block of lines.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed, or not found; one line on standard error says why |
| 2 | called wrongly, or the settings are not valid |
| 3 | `runs wait`: time was up |
| 130 | interrupted by Ctrl-C |
"""

SETTINGS_HEAD = """\
# Settings

*Written by `scripts/make_reference.py` from the code.*

A variable of the environment comes before `turnout.toml` in the home folder, which comes before the default. In
`turnout.toml` a section is a table: `TURNOUT_SCHEDULER__LEASE_S=10` is `lease_s = 10` below `[scheduler]`. Unknown
settings are refused. `turnout config show` prints what is in force, and `turnout config check` tries it.
"""

STATES_HEAD = """\
# States

*Written by `scripts/make_reference.py` from `metadata/states.py`, the only place where states live.*

Every change of a state is one statement that names the state it expects (a compare-and-set) and returns what it
changed. When nothing comes back, somebody else was first, and the work is dropped.
"""

CAUSES_HEAD = """\
## Causes

An attempt that did not succeed has a cause beside the sentence in `error`; `turnout tasks show` prints both. A *failed*
attempt uses up one of the task's `retries`. A *lost* one does not: it is an infra failure, with a limit of its own
(`TURNOUT_SCHEDULER__MAX_INFRA_RETRIES`). A *returned* one had never started, and nothing is counted.
A *cancelled* one was ended from outside, and nothing is counted either.

| cause | what happened | the attempt is |
|---|---|---|
"""

CAUSES = {
    Cause.ERROR: ("The task raised, or could not be found in its DAG file on the worker.", "failed"),
    Cause.TIMEOUT: ("The task ran longer than its `execution_timeout`.", "failed"),
    Cause.CHILD_EXITED: ("The task ended its process, without returning or raising.", "failed"),
    Cause.CHILD_KILLED: ("A signal killed the process of the task; by SIGKILL, probably for lack of memory.", "lost"),
    Cause.MEMORY_LIMIT: ("The task and its processes used more memory than its `memory_limit_mb`.", "failed"),
    Cause.CPU_TIME_LIMIT: ("They used more CPU time than its `cpu_time_limit`.", "failed"),
    Cause.WORKER_LOST: ("The worker let its lease expire, or its child process could not report.", "lost"),
    Cause.WORKER_STOPPED: ("The worker was stopped, or had lost its lease.", "lost; returned if it had not started"),
    Cause.SCHEDULER_LOST: ("The scheduler that had queued the attempt died before a worker claimed it.", "returned"),
    Cause.MESSAGE_LOST: ("The broker no longer had the message of the attempt.", "returned"),
    Cause.NO_WORKER: ("Nobody claimed the attempt, and no live worker serves its queue any more.", "returned"),
    Cause.IMPORT_TIMEOUT: ("The DAG file took too long to import on the worker.", "lost"),
    Cause.CLEARED: ("A person cleared the task instance while the attempt was queued or running.", "cancelled"),
    Cause.MARKED: ("A person marked the task instance while the attempt was queued or running.", "cancelled"),
    Cause.CANCELLED: ("A person cancelled the task instance or its run.", "cancelled"),
    Cause.FAIL_FAST: ("Another task of the run failed, and the DAG has `fail_fast`.", "cancelled"),
    Cause.RUN_TIMEOUT: ("The run took longer than its `dagrun_timeout`.", "cancelled"),
    Cause.TASK_REMOVED: ("The DAG version of the run does not have the task.", "as it was: none is under way"),
    Cause.POOL_TOO_SMALL: ("The task needs more slots than its pool has in all.", "none: it never began"),
}


def main() -> int:
    """Write the pages, or compare them with what is there."""
    pages = {
        FOLDER / "cli.md": cli_page(),
        FOLDER / "settings.md": settings_page(),
        FOLDER / "states.md": states_page(),
    }
    if "--check" not in sys.argv[1:]:
        for path, text in pages.items():
            path.write_text(text)
        return 0
    stale = [str(path) for path, text in pages.items() if not path.exists() or path.read_text() != text]
    if stale:
        sys.stderr.write(f"Not up to date: {', '.join(stale)}. Run `python scripts/make_reference.py`.\n")
    return 1 if stale else 0


def cli_page() -> str:
    """Describe every command."""
    return "\n".join([CLI_HEAD, *(block for name, entry in root().commands.items() for block in _command(name, entry))])


def settings_page() -> str:
    """Describe every setting."""
    sections = {key: field for key, field in Settings.model_fields.items() if _section(field)}
    top = [key for key in Settings.model_fields if key not in sections]
    blocks = [SETTINGS_HEAD, *_settings(Settings, top, ())]
    for key, field in sections.items():
        model = _section(field)
        assert model  # noqa: S101  these are the sections
        blocks += [f"## `[{key}]`\n", f"{model.__doc__}\n", *_settings(model, list(model.model_fields), (key,))]
    return "\n".join(blocks)


def states_page() -> str:
    """Describe the law of states and the causes."""
    causes = [f"| `{cause}` | {CAUSES[cause][0]} | {CAUSES[cause][1]} |\n" for cause in Cause]
    return "\n".join(
        [STATES_HEAD, *_law("Task instances", LAW), *_law("DAG runs", RUN_LAW), "".join([CAUSES_HEAD, *causes])],
    )


def _law(title: str, law: tuple[Law, ...]) -> Iterator[str]:
    yield f"## {title}\n\n```mermaid\n{mermaid(law).strip()}\n```\n"
    rows = [f"| `{row.before}` | {row.event} | `{row.after}` | {', '.join(row.actors)} |" for row in law]
    yield "\n".join(["| from | event | to | who |", "|---|---|---|---|", *rows, ""])


def _command(name: str, entry: Any) -> Iterator[str]:
    command = entry.load() if isinstance(entry, LazyCommand) else entry
    members = getattr(command, "commands", {})
    if members:
        yield f"## `turnout {name}`\n\n{_paragraphs(command.help)}\n"
        for member, inner in members.items():
            yield f"### `turnout {name} {member}`\n\n{_paragraphs(inner.help)}\n"
            yield from _parameters(inner)
    else:
        yield f"## `turnout {name}`\n\n{_paragraphs(command.help)}\n"
        yield from _parameters(command)


def _parameters(command: Any) -> Iterator[str]:
    rows = [_parameter(parameter) for parameter in command.params if parameter.name != "help"]
    if rows:
        yield "\n".join(["| argument or option | meaning | default |", "|---|---|---|", *rows, ""])


def _parameter(parameter: Any) -> str:
    is_argument = parameter.param_type_name == "argument"
    names = [parameter.metavar] if is_argument else [*parameter.opts, *parameter.secondary_opts]
    default = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    shown = "required" if parameter.required else "" if default is None or default is False else f"`{default}`"
    return f"| {_listed(names)} | {parameter.help or ''}{_choices(parameter)} | {shown} |"


def _choices(parameter: Any) -> str:
    kind: Any = parameter.type_descriptor.annotation
    return f" One of {_listed(choice.value for choice in kind)}." if issubclass(type(kind), EnumType) else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))


def _section(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def _settings(model: type[BaseModel], keys: list[str], path: tuple[str, ...]) -> Iterator[str]:
    yield "| variable | default | meaning |\n|---|---|---|"
    for key in keys:
        field = model.model_fields[key]
        default = "" if field.default is None else f"`{_written(field.default)}`"
        yield f"| `{variable_name((*path, key))}` | {default} | {field.description} |"
    yield ""


def _written(default: Any) -> Any:
    return str(default).lower() if isinstance(default, bool) else default


if __name__ == "__main__":
    sys.exit(main())
