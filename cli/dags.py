"""`turnout dags`."""

import dataclasses
from typing import Annotated

import typer

from turnout.cli.commands import command_group
from turnout.cli.dag_test import dag_test
from turnout.cli.dag_trigger import dag_trigger
from turnout.cli.database import actor, in_database
from turnout.cli.deleting import dag_delete
from turnout.cli.options import LIMIT, DagArgument, LimitOption, Output, OutputOption
from turnout.cli.output import print_table, say, show_json, show_page, show_record
from turnout.metadata import plans
from turnout.metadata.listings.dag_details import show_dag
from turnout.metadata.listings.dags import list_dags
from turnout.metadata.listings.import_errors import list_import_errors
from turnout.metadata.listings.page import Page
from turnout.metadata.listings.upcoming import list_upcoming, preview_unpausing
from turnout.metadata.pausing import set_paused

app = command_group()

_COLUMNS = ("dag_id", "timetable_summary", "is_paused", "next_dagrun_run_after", "tags", "relative_fileloc")
_TASK_COLUMNS = ("task_id", "operator_name", "downstream_task_ids", "pool", "queue", "priority_weight", "retries")
_UPCOMING_COLUMNS = ("logical_date", "data_interval_start", "data_interval_end", "run_after", "creation")


@app.command("list")
def list_(
    *,
    paused: Annotated[bool | None, typer.Option("--paused/--unpaused", help="Only those that are, or are not.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only those that bear the tag.")] = None,
    limit: LimitOption = LIMIT,
    output: OutputOption = Output.TABLE,
) -> None:
    """List DAGs by name."""
    page = in_database(lambda connection: list_dags(connection, limit, is_paused=paused, tag=tag))
    empty = "No DAGs. Is `turnout dags import-errors` empty too?"
    if paused is not None or tag is not None:
        empty = "No such DAGs: `turnout dags list` lists all."
    show_page(page, _COLUMNS, output, empty=empty)


@app.command()
def show(dag_id: DagArgument, output: OutputOption = Output.TABLE) -> None:
    """Show a DAG and its tasks."""
    details = in_database(lambda connection: show_dag(connection, dag_id))
    if output is Output.JSON:
        show_json(dataclasses.asdict(details))
        return
    fields = {field.name: getattr(details, field.name) for field in dataclasses.fields(details)}
    tasks, version = fields.pop("tasks"), fields.pop("latest_dag_version")
    show_record({**fields, "version_number": version.version_number}, output)
    say("")
    print_table(_TASK_COLUMNS, ([getattr(task, column) for column in _TASK_COLUMNS] for task in tasks))


@app.command()
def pause(dag_id: DagArgument) -> None:
    """Let no run or task of a DAG start until it is unpaused; what runs goes on."""
    changed = in_database(lambda connection: set_paused(connection, dag_id, paused=True, actor=actor()))
    say(f"DAG {dag_id} is paused." if changed else f"DAG {dag_id} was paused already.")


@app.command()
def unpause(
    dag_id: DagArgument,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; list the runs it would create.")] = False,
    limit: LimitOption = LIMIT,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let the runs of a DAG start.

    With `--dry-run`, list the runs that are created at once, or as soon as earlier ones have ended (`when_room`).
    """
    if dry_run:
        page = in_database(lambda connection: preview_unpausing(connection, dag_id, limit))
        show_page(page, _UPCOMING_COLUMNS, output, empty=f"No run of DAG {dag_id} is due: nothing would be created.")
        return
    changed = in_database(lambda connection: set_paused(connection, dag_id, paused=False, actor=actor()))
    say(f"DAG {dag_id} is unpaused." if changed else f"DAG {dag_id} was not paused.")


@app.command("next-runs")
def next_runs(
    dag_id: DagArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many runs.")] = 5,
    output: OutputOption = Output.TABLE,
) -> None:
    """Preview the next runs that the timetable of a DAG gives."""
    runs, more = in_database(lambda c: (list_upcoming(c, dag_id, limit), plans.is_open(c, dag_id)))
    empty = f"The timetable of DAG {dag_id} gives no further runs."
    if more:
        empty = f"The next runs of DAG {dag_id} are not planned yet: the DAG processor does it within half a minute."
    show_page(Page(runs, is_cut=False), _UPCOMING_COLUMNS, output, empty=empty)


@app.command("import-errors")
def import_errors(limit: LimitOption = LIMIT, output: OutputOption = Output.TABLE) -> None:
    """List the DAG files that could not be imported, and why."""
    page = in_database(lambda connection: list_import_errors(connection, limit))
    show_page(page, ("filename", "line", "stack_trace", "timestamp"), output, empty="No import errors.")


app.command("trigger")(dag_trigger)
app.command("test")(dag_test)
app.command("delete")(dag_delete)
