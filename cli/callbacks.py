"""`turnout callbacks`."""

from typing import Annotated

import typer

from turnout.cli.commands import command_group
from turnout.cli.database import in_database
from turnout.cli.options import LIMIT, LimitOption, Output, OutputOption
from turnout.cli.output import remark, say, show_page
from turnout.executor.logs import parse_line
from turnout.metadata.listings.callbacks import list_callbacks, read_callback_log
from turnout.metadata.listings.processes import list_workers
from turnout.metadata.states import CallbackState

app = command_group()

_COLUMNS = ("id", "dag_id", "run_id", "task_id", "event", "state", "called_for_when", "end_date", "worker", "error")


@app.command("list")
def list_(
    dag_id: Annotated[str | None, typer.Argument(metavar="DAG_ID", help="Only those of this DAG.")] = None,
    *,
    state: Annotated[CallbackState | None, typer.Option("--state", help="Only those in this state.")] = None,
    limit: LimitOption = LIMIT,
    output: OutputOption = Output.TABLE,
) -> None:
    """List callbacks, the last one first: what they were called for, and how they went."""
    page = in_database(lambda connection: list_callbacks(connection, limit, dag_id=dag_id, state=state))
    show_page(page, _COLUMNS, output, empty="No callbacks: nothing has happened that anybody wants to be called for.")
    if any(row.state == CallbackState.WAITING for row in page.rows):
        _remark_on_workers()


@app.command()
def logs(callback_id: Annotated[int, typer.Argument(metavar="ID", help="See `turnout callbacks list`.")]) -> None:
    """Print what a callback has said."""
    said = in_database(lambda connection: read_callback_log(connection, callback_id))
    for line in said.splitlines():
        for entry in parse_line(line.encode()):
            say(f"{entry.level.upper():<7} {entry.msg}")
    if not said:
        remark("It has said nothing so far.")


def _remark_on_workers() -> None:
    workers = in_database(lambda connection: list_workers(connection, LIMIT, is_all=False))
    if not any(worker.runs_callbacks for worker in workers.rows):
        remark("No live worker runs callbacks: start one without --no-callbacks.")
