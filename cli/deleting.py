"""`turnout runs delete` and `turnout dags delete`."""

from typing import Annotated

import typer

from turnout.cli.changing import Manner, change
from turnout.cli.database import actor
from turnout.cli.options import DagArgument
from turnout.cli.selecting import ChosenRuns
from turnout.cli.spreading import spread
from turnout.metadata.changes.delete import Deleted, delete_dag, delete_runs
from turnout.metadata.listings.spoken import counted

#: Most runs that are named before they are deleted.
_NAMED = 20

ForceOption = Annotated[bool, typer.Option("--force", help="Also runs that have not ended: they are stopped.")]


@spread
def run_delete(runs: ChosenRuns, *, force: ForceOption = False, manner: Manner) -> None:
    """Delete runs with their task instances, attempts and XComs; the logs stay."""
    asked = runs.selection()
    change(
        lambda connection, dry: delete_runs(connection, asked, actor=actor(), force=force, dry_run=dry),
        _describe_runs,
        manner,
    )


@spread
def dag_delete(dag_id: DagArgument, *, force: ForceOption = False, manner: Manner) -> None:
    """Delete a DAG that no file declares any longer, with all its runs; the logs stay."""
    change(
        lambda connection, dry: delete_dag(connection, dag_id, actor=actor(), force=force, dry_run=dry),
        lambda deleted: [f"DAG {dag_id} and all its versions: deleted", *_describe_runs(deleted)],
        manner,
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
