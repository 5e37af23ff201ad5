"""Cancelling: what has not ended ends now, and nothing further of it begins."""

from sqlalchemy import Connection

from turnout.metadata.changes.carrying_out import carry_out
from turnout.metadata.changes.choosing import choose, chosen_states, read_graphs
from turnout.metadata.changes.locking import LockedTask, lock_all_tasks, lock_runs, lock_tasks, open_dag
from turnout.metadata.changes.plan import Changes, Plan
from turnout.metadata.changes.recording import record
from turnout.metadata.changes.selection import RunSelection, TaskSelection
from turnout.metadata.errors import ConflictError, RequestError
from turnout.metadata.states import UNFINISHED, Cause, RunState, TaskState

#: What of a cancelled run is skipped, since it had not begun.
_NOT_BEGUN = frozenset({TaskState.NONE, TaskState.SCHEDULED, TaskState.QUEUED})


def cancel_runs(connection: Connection, selection: RunSelection, *, actor: str, dry_run: bool = False) -> Changes:
    """Cancel runs that have not ended: they fail, and so does what runs of them; what has not begun is skipped.

    It makes no difference whether the DAG is paused, or no file declares it any longer.

    Args:
        connection: the transaction.
        selection: the runs; of several, those that have ended are left alone.
        actor: who does it.
        dry_run: change nothing; only tell what would change.

    Raises:
        NotFoundError: there is no such DAG or run.
        ConflictError: the one run has ended already.
        RequestError: it is no selection.
    """
    dag = open_dag(connection, selection.dag_id)
    locked = lock_runs(connection, selection)
    runs = [run for run in locked if not run.is_finished]
    if selection.run_id is not None and not runs:
        raise ConflictError(f"Run {selection.run_id} of DAG {dag.dag_id} has ended already: {locked[0].state}.")
    tasks = lock_all_tasks(connection, runs, UNFINISHED)
    plan = Plan(
        dag_id=dag.dag_id,
        locked=runs,
        tasks=[(task, ended_early(task)) for task in tasks],
        runs=[(run, RunState.FAILED) for run in runs],
    )
    changes = plan.changes()
    if changes and not dry_run:
        carry_out(connection, plan, Cause.CANCELLED, actor)
        record(connection, actor, "run.cancel", changes, selection)
    return changes


def cancel_tasks(connection: Connection, selection: TaskSelection, *, actor: str, dry_run: bool = False) -> Changes:
    """Cancel task instances that have not ended: they fail, and are not tried again; their runs go on from there.

    Args:
        connection: the transaction.
        selection: what to cancel; it names tasks.
        actor: who does it.
        dry_run: change nothing; only tell what would change.

    Raises:
        NotFoundError: there is no such DAG, run or task.
        RequestError: it is no selection, or names no task.
    """
    if not selection.task_ids:
        raise RequestError("Name the tasks to cancel; a whole run is cancelled by `turnout runs cancel`.")
    dag = open_dag(connection, selection.runs.dag_id)
    runs = lock_runs(connection, selection.runs)
    wanted = choose(read_graphs(connection, runs), selection)
    tasks = lock_tasks(connection, runs, wanted, chosen_states(selection, UNFINISHED))
    plan = Plan(dag.dag_id, runs, [(task, TaskState.FAILED) for task in tasks])
    changes = plan.changes()
    if changes and not dry_run:
        carry_out(connection, plan, Cause.CANCELLED, actor)
        record(connection, actor, "task.cancel", changes, selection)
    return changes


def ended_early(task: LockedTask) -> TaskState:
    """Say what becomes of an unfinished task instance whose run ends over it."""
    return TaskState.SKIPPED if task.state in _NOT_BEGUN else TaskState.FAILED
