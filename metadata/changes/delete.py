"""Deleting: runs, or a DAG with all its history, go from the database; the logs of tasks stay where they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from turnout.metadata import audit
from turnout.metadata.changes.locking import LockedRun, lock_all_runs, lock_all_tasks, lock_runs, open_dag
from turnout.metadata.changes.selection import RunSelection
from turnout.metadata.changes.waking import wake
from turnout.metadata.errors import ConflictError
from turnout.metadata.states import TaskState


@dataclass(frozen=True)
class Deleted:
    """What was deleted, or would be."""

    dag_id: str
    dag_run_ids: list[str]
    task_instances: int


def delete_runs(
    connection: Connection, selection: RunSelection, *, actor: str, force: bool = False, dry_run: bool = False
) -> Deleted:
    """Delete runs with their task instances, attempts and XComs.

    Args:
        connection: the transaction.
        selection: the runs.
        actor: who does it.
        force: also runs that have not ended; what runs of them is stopped within about a second.
        dry_run: change nothing; only tell what would go.

    Raises:
        NotFoundError: there is no such DAG or run.
        ConflictError: a run has not ended, and force is not used.
        RequestError: it is no selection.
    """
    dag = open_dag(connection, selection.dag_id)
    runs = lock_runs(connection, selection)
    deleted = _plan(connection, dag.dag_id, runs, force=force)
    if runs and not dry_run:
        _delete(connection, runs)
        single = runs[0].run_id if len(runs) == 1 else None
        audit.record(connection, actor, "run.delete", dag_id=dag.dag_id, run_id=single, **_detail(runs, deleted))
    return deleted


def delete_dag(
    connection: Connection, dag_id: str, *, actor: str, force: bool = False, dry_run: bool = False
) -> Deleted:
    """Delete a DAG that no file declares any longer, with all its versions and runs.

    Args:
        connection: the transaction.
        dag_id: the DAG.
        actor: who does it.
        force: also when runs have not ended; what runs of them is stopped within about a second.
        dry_run: change nothing; only tell what would go.

    Raises:
        NotFoundError: there is no such DAG.
        ConflictError: its file still declares it, or a run has not ended and force is not used.
    """
    dag = open_dag(connection, dag_id)
    if dag.is_active:
        raise ConflictError(f"DAG {dag_id} is still declared by {dag.file_path}: take it out of there first.")
    runs = lock_all_runs(connection, dag_id)
    deleted = _plan(connection, dag_id, runs, force=force)
    if not dry_run:
        _delete(connection, runs)
        connection.execute(text("DELETE FROM dag WHERE dag_id = :dag_id"), {"dag_id": dag_id})
        connection.execute(text("DELETE FROM dag_version WHERE dag_id = :dag_id"), {"dag_id": dag_id})
        audit.record(connection, actor, "dag.delete", dag_id=dag_id, **_detail(runs, deleted))
    return deleted


def _plan(connection: Connection, dag_id: str, runs: Sequence[LockedRun], *, force: bool) -> Deleted:
    open_runs = [run for run in runs if not run.is_finished]
    if open_runs and not force:
        first, others = open_runs[0], len(open_runs) - 1
        more = f", and so are {others} more" if others else ""
        raise ConflictError(
            f"Run {first.run_id} of DAG {dag_id} is {first.state}{more}: cancel first, or delete by force."
        )
    return Deleted(dag_id, [run.run_id for run in runs], len(lock_all_tasks(connection, runs, TaskState)))


def _delete(connection: Connection, runs: Sequence[LockedRun]) -> None:
    """Delete locked runs; what belongs to them goes with them, but for wake-ups, which belong to nobody."""
    ids = [run.id for run in runs]
    wake(connection, ids)
    connection.execute(text("DELETE FROM wakeup WHERE dag_run_id = ANY(:ids)"), {"ids": ids})
    connection.execute(text("DELETE FROM dag_run WHERE id = ANY(:ids)"), {"ids": ids})


def _detail(runs: Sequence[LockedRun], deleted: Deleted) -> dict[str, Any]:
    return {
        "dag_runs": len(runs),
        "unfinished": [run.run_id for run in runs if not run.is_finished],
        "task_instances": deleted.task_instances,
    }
