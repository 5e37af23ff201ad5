"""Create and upgrade the tables."""

from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from turnout.metadata.engine import transact
from turnout.metadata.errors import MetadataError, SchemaError

#: Any number that nobody else uses: the advisory lock that lets one process migrate at a time.
MIGRATION_LOCK = 7_305_808_877
MIN_SERVER_VERSION = 13


@dataclass(frozen=True)
class SchemaStatus:
    """Revision of the tables as they are, and as this version of Turnout needs them."""

    current: str | None
    expected: str
    server_version: str

    @property
    def is_current(self) -> bool:
        """Whether nothing is left to migrate."""
        return self.current == self.expected


def migrate(engine: Engine) -> SchemaStatus:
    """Bring the tables to this version; safe when several processes start at once, as one waits for the other.

    Raises:
        MetadataError: the server is older than PostgreSQL 13, the tables are those of a later Turnout, or a migration
            failed (then nothing was changed).
        DatabaseUnavailableError: the database cannot be reached.
    """
    return transact(engine, _upgrade)


def status(engine: Engine) -> SchemaStatus:
    """Read the revision of the tables."""
    return transact(engine, _status)


def require_current(engine: Engine) -> None:
    """Refuse to go on with tables of another version.

    Raises:
        SchemaError: `turnout db migrate` has not been run.
    """
    found = status(engine)
    if not found.is_current:
        state = f"revision {found.current}" if found.current else "no tables yet"
        raise SchemaError(
            f"The metadata database has {state}, this version of Turnout needs {found.expected}: "
            "run `turnout db migrate`."
        )


def _upgrade(connection: Connection) -> SchemaStatus:
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
    before = _status(connection)
    if not before.is_current:
        _refuse_unknown(connection, before.current)
        command.upgrade(_config(connection), "head")
    return _status(connection)


def _refuse_unknown(connection: Connection, revision: str | None) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(_config(connection)).walk_revisions()}
    if revision is not None and revision not in known:
        raise MetadataError(
            f"The metadata database has revision {revision}, which this version of Turnout does not know: "
            "install the version that made it, or a later one."
        )


def _status(connection: Connection) -> SchemaStatus:
    version = str(connection.scalar(text("SHOW server_version")))
    if int(connection.scalar(text("SHOW server_version_num")) or 0) < MIN_SERVER_VERSION * 10_000:
        raise MetadataError(f"The server is PostgreSQL {version}; Turnout needs {MIN_SERVER_VERSION} or later.")
    head = ScriptDirectory.from_config(_config(connection)).get_current_head()
    return SchemaStatus(MigrationContext.configure(connection).get_current_revision(), head or "", version)


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config
