"""`turnout workers`."""

from turnout.cli.commands import command_group
from turnout.cli.database import in_database
from turnout.cli.options import LIMIT, LimitOption, Output, OutputOption
from turnout.cli.output import show_page
from turnout.metadata.listings.processes import list_workers

app = command_group()

_COLUMNS = ("name", "state", "hostname", "queues", "pools", "running", "slots", "load", "memory_mb", "latest_heartbeat")


@app.command("list")
def list_(limit: LimitOption = LIMIT, output: OutputOption = Output.TABLE) -> None:
    """List the workers, those alive first. No pools: it serves all of them."""
    page = in_database(lambda connection: list_workers(connection, limit))
    show_page(page, _COLUMNS, output, empty="No workers. `turnout worker` starts one.")
