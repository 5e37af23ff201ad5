"""`turnout runs delete` and `turnout dags delete`."""

from typing import Annotated

import typer

from turnout.cli.changing import DryRunOption, YesOption, change
from turnout.cli.database import actor
from turnout.cli.options import DagArgument, Output, OutputOption
from turnout.cli.selecting import EndOption, RunsArgument, StartOption
from turnout.metadata.changes.delete import Deleted, delete_dag, delete_runs
from turnout.metadata.changes.selection import RunSelection
from turnout.metadata.listings.spoken import counted

#: Most runs that are named before they are deleted.
_NAMED = 20

ForceOption = Annotated[bool, typer.Option("--force", help="Also runs that have not ended: they are stopped.")]


def run_delete(
    dag_id: DagArgument,
    run_id: RunsArgument = None,
    *,
    start_date: StartOption = None,
    end_date: EndOption = None,
    force: ForceOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete runs with their task instances, attempts and XComs; the logs stay."""
    asked = RunSelection(dag_id, run_id, from_date=start_date, to_date=end_date)
    change(
        lambda connection, dry: delete_runs(connection, asked, actor=actor(), force=force, dry_run=dry),
        _describe_runs,
        yes=yes,
        dry_run=dry_run,
        output=output,
    )


def dag_delete(
    dag_id: DagArgument,
    *,
    force: ForceOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a DAG that no file declares any longer, with all its runs; the logs stay."""
    change(
        lambda connection, dry: delete_dag(connection, dag_id, actor=actor(), force=force, dry_run=dry),
        lambda deleted: [f"DAG {dag_id} and all its versions: deleted", *_describe_runs(deleted)],
        yes=yes,
        dry_run=dry_run,
        output=output,
    )


def _describe_runs(deleted: Deleted) -> list[str]:
    names = deleted.dag_run_ids
    if not names:
        return []
    runs = counted(len(names), "run")
    more = [f"        and {len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return [
        f"DAG {deleted.dag_id}, {runs} with {counted(deleted.task_instances, 'task instance')}: deleted",
        *(f"        {name}" for name in names[:_NAMED]),
        *more,
    ]
