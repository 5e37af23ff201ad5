"""`turnout workers`."""

from turnout.cli.commands import command_group
from turnout.cli.database import in_database
from turnout.cli.options import LIMIT, AllProcessesOption, LimitOption, Output, OutputOption
from turnout.cli.output import show_page
from turnout.metadata.listings.processes import list_workers

app = command_group()

_COLUMNS = ("name", "state", "hostname", "queues", "pools", "running", "slots", "load", "memory_mb", "latest_heartbeat")
_EMPTY = "No worker is alive. `turnout worker` starts one; --all shows those that ended within the last day."


@app.command("list")
def list_(
    *, is_all: AllProcessesOption = False, limit: LimitOption = LIMIT, output: OutputOption = Output.TABLE
) -> None:
    """List the workers that are alive. No pools: it serves all of them."""
    page = in_database(lambda connection: list_workers(connection, limit, is_all=is_all))
    show_page(page, _COLUMNS, output, empty=_EMPTY)
