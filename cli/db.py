"""`turnout db`."""

from dataclasses import asdict

from turnout.cli.commands import command_group
from turnout.cli.database import open_database
from turnout.cli.options import Output, OutputOption
from turnout.cli.output import say, show_record
from turnout.config.settings import load_settings
from turnout.metadata import migrate as migration

app = command_group()


@app.command()
def migrate() -> None:
    """Create the tables, or bring them to this version of Turnout. Safe to run from several machines at once."""
    with open_database(load_settings()) as engine:
        status = migration.migrate(engine)
    say(f"The metadata database is at revision {status.current} (PostgreSQL {status.server_version}).")


@app.command()
def check(output: OutputOption = Output.TABLE) -> None:
    """Check that the database answers and has the tables of this version. Exits with 1 when not."""
    with open_database(load_settings()) as engine:
        status = migration.status(engine)
        show_record({**asdict(status), "is_current": status.is_current}, output)
        migration.require_current(engine)
