"""`turnout schedulers`."""

from turnout.cli.commands import command_group
from turnout.cli.database import in_database
from turnout.cli.options import LIMIT, LimitOption, Output, OutputOption
from turnout.cli.output import show_page
from turnout.metadata.listings.processes import list_schedulers

app = command_group()

_COLUMNS = ("name", "state", "hostname", "pid", "latest_heartbeat", "last_loop_when", "last_loop")


@app.command("list")
def list_(limit: LimitOption = LIMIT, output: OutputOption = Output.TABLE) -> None:
    """List the schedulers, those alive first, and what the last loop of each did."""
    page = in_database(lambda connection: list_schedulers(connection, limit))
    show_page(page, _COLUMNS, output, empty="No schedulers. `turnout scheduler` starts one.")
