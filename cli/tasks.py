"""`turnout tasks`."""

import json
from dataclasses import replace
from typing import Annotated

import typer

from turnout.cli.commands import command_group
from turnout.cli.database import in_database
from turnout.cli.explaining import show_explanation
from turnout.cli.options import (
    LIMIT,
    UNMAPPED,
    DagArgument,
    LimitOption,
    MapIndexOption,
    Output,
    OutputOption,
    RunArgument,
    TaskArgument,
)
from turnout.cli.output import plain, print_table, say, show_json, show_page, show_record
from turnout.cli.task_changes import task_cancel, task_clear, task_mark
from turnout.cli.task_logs import task_logs
from turnout.config.settings import load_settings
from turnout.metadata.listings.attempts import show_with_attempts
from turnout.metadata.listings.explanations import TaskExplanation
from turnout.metadata.listings.page import Page
from turnout.metadata.listings.task_instances import list_task_instances
from turnout.metadata.listings.xcoms import list_xcoms
from turnout.metadata.states import UNFINISHED, TaskState
from turnout.scheduler.explaining.task import explain_task

app = command_group()

_WAITING = UNFINISHED - {TaskState.RUNNING}
_COLUMNS = ("task_id", "map_index", "state", "try_number", "start_date", "duration", "worker", "pool", "queue", "error")
_ATTEMPT_COLUMNS = ("try_number", "queued_when", "start_date", "end_date", "worker", "outcome", "cause", "error")


@app.command("list")
def list_(
    dag_id: DagArgument,
    run_id: RunArgument,
    *,
    state: Annotated[TaskState | None, typer.Option("--state", help="Only those in this state.")] = None,
    limit: LimitOption = LIMIT,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the task instances of a run, in the order in which they ran."""
    page = in_database(lambda connection: list_task_instances(connection, dag_id, run_id, limit, state=state))
    empty = "No task instances: they come into being when the run starts, and it has not started."
    if state is not None:
        empty = f"No task instances in state {state}."
    show_page(page, _COLUMNS, output, empty=empty)


@app.command()
def show(
    dag_id: DagArgument,
    run_id: RunArgument,
    task_id: TaskArgument,
    *,
    map_index: MapIndexOption = UNMAPPED,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a task instance and its attempts: when, on which worker, how each ended and why."""
    instance, attempts = in_database(
        lambda connection: show_with_attempts(connection, dag_id, run_id, task_id, map_index)
    )
    waits_for = None
    if instance.state in _WAITING:
        waits_for = _explain(dag_id, run_id, task_id, map_index).waits_for
    record = {**plain(instance), "waits_for": waits_for}
    if output is Output.JSON:
        show_json({**record, "attempts": [plain(attempt) for attempt in attempts]})
        return
    show_record(record, output)
    if attempts:
        say("")
        print_table(_ATTEMPT_COLUMNS, ([getattr(row, column) for column in _ATTEMPT_COLUMNS] for row in attempts))


@app.command()
def explain(
    dag_id: DagArgument,
    run_id: RunArgument,
    task_id: TaskArgument,
    *,
    map_index: MapIndexOption = UNMAPPED,
    output: OutputOption = Output.TABLE,
) -> None:
    """Say why a task does not run: all that it waits for right now, who holds it, and what to do."""
    show_explanation(_explain(dag_id, run_id, task_id, map_index), output)


@app.command()
def xcoms(
    dag_id: DagArgument,
    run_id: RunArgument,
    task_id: TaskArgument,
    *,
    map_index: MapIndexOption = UNMAPPED,
    limit: LimitOption = LIMIT,
    output: OutputOption = Output.TABLE,
) -> None:
    """List what a task handed to others (XComs); its result has the key `return_value`."""
    page = in_database(lambda connection: list_xcoms(connection, dag_id, run_id, task_id, map_index, limit=limit))
    if output is Output.TABLE:
        page = Page([replace(row, value=json.dumps(row.value, ensure_ascii=False)) for row in page.rows], page.is_cut)
    show_page(page, ("key", "value", "timestamp"), output, empty=f"Task {task_id} has no XComs.")


def _explain(dag_id: str, run_id: str, task_id: str, map_index: int) -> TaskExplanation:
    settings = load_settings().scheduler
    return in_database(
        lambda connection: explain_task(connection, dag_id, run_id, task_id, map_index=map_index, settings=settings)
    )


app.command("logs")(task_logs)
app.command("clear")(task_clear)
app.command("mark")(task_mark)
app.command("cancel")(task_cancel)
