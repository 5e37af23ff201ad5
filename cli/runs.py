"""`turnout runs`."""

from typing import Annotated

import typer

from turnout.cli.commands import command_group
from turnout.cli.database import in_database
from turnout.cli.deleting import run_delete
from turnout.cli.explaining import show_explanation
from turnout.cli.options import LIMIT, DagArgument, LimitOption, Output, OutputOption, RunArgument
from turnout.cli.output import show_page
from turnout.cli.run_changes import run_cancel, run_clear, run_mark
from turnout.cli.run_record import show_run_record
from turnout.cli.waiting import wait_for_run
from turnout.config.settings import load_settings
from turnout.metadata.listings.runs import list_runs, show_run
from turnout.metadata.states import RunState
from turnout.scheduler.explaining.run import explain_run

app = command_group()

_COLUMNS = ("dag_id", "dag_run_id", "state", "run_type", "logical_date", "start_date", "end_date", "duration")


@app.command("list")
def list_(
    dag_id: Annotated[str | None, typer.Argument(metavar="DAG_ID", help="Only runs of this DAG.")] = None,
    *,
    state: Annotated[RunState | None, typer.Option("--state", help="Only runs in this state.")] = None,
    limit: LimitOption = LIMIT,
    output: OutputOption = Output.TABLE,
) -> None:
    """List runs, the newest first."""
    page = in_database(lambda connection: list_runs(connection, limit, dag_id=dag_id, state=state))
    show_page(page, _COLUMNS, output, empty="No runs." if state is None else f"No runs in state {state}.")


@app.command()
def show(dag_id: DagArgument, run_id: RunArgument, output: OutputOption = Output.TABLE) -> None:
    """Show a run."""
    show_run_record(in_database(lambda connection: show_run(connection, dag_id, run_id)), output)


@app.command()
def explain(dag_id: DagArgument, run_id: RunArgument, output: OutputOption = Output.TABLE) -> None:
    """Say why a run does not start or end: all that it waits for right now, and what to do."""
    settings = load_settings().scheduler
    explanation = in_database(lambda connection: explain_run(connection, dag_id, run_id, settings=settings))
    show_explanation(explanation, output)


@app.command()
def wait(
    dag_id: DagArgument,
    run_id: RunArgument,
    *,
    timeout: Annotated[float | None, typer.Option("--timeout", min=0, help="Seconds to wait at most.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Wait for the end of a run. Exits with 0 when it was successful, 1 when it failed, 3 when time was up."""
    wait_for_run(dag_id, run_id, timeout_s=timeout, output=output)


app.command("clear")(run_clear)
app.command("mark")(run_mark)
app.command("cancel")(run_cancel)
app.command("delete")(run_delete)
