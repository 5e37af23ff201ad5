"""Marking: task instances and runs get the state that a person says, whatever became of them."""

from collections.abc import Sequence

from sqlalchemy import Connection

from turnout.metadata.changes.cancel import ended_early
from turnout.metadata.changes.carrying_out import carry_out
from turnout.metadata.changes.choosing import choose, chosen_states, read_graphs
from turnout.metadata.changes.clear import restarts
from turnout.metadata.changes.graph import downstream_of
from turnout.metadata.changes.locking import (
    LockedRun,
    LockedTask,
    WantedTask,
    lock_all_tasks,
    lock_runs,
    lock_tasks,
    open_dag,
)
from turnout.metadata.changes.plan import Changes, Plan
from turnout.metadata.changes.recording import record
from turnout.metadata.changes.selection import RunSelection, TaskSelection
from turnout.metadata.errors import RequestError
from turnout.metadata.states import UNFINISHED, Cause, RunState, TaskState
from turnout.metadata.versions import Content

MARKS = (TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED)
RUN_MARKS = (RunState.SUCCESS, RunState.FAILED)


def mark_tasks(
    connection: Connection, selection: TaskSelection, state: TaskState, *, actor: str, dry_run: bool = False
) -> Changes:
    """Mark task instances success, failed or skipped; what waits for them goes on from there.

    An attempt that is queued or running is ended. What did not run because a task had failed that is now marked success
    or skipped is cleared; a finished run starts again for it, and so that its own state follows from its tasks'.

    Args:
        connection: the transaction.
        selection: what to mark; it names tasks.
        state: success, failed or skipped.
        actor: who does it.
        dry_run: change nothing; only tell what would change.

    Raises:
        NotFoundError: there is no such DAG, run or task.
        RequestError: it is no selection, or names no task.
    """
    if state not in MARKS:
        raise RequestError(f"A task instance can be marked {', '.join(MARKS)}; not {state}.")
    if not selection.task_ids:
        raise RequestError("Name the tasks to mark; a whole run is marked by `turnout runs mark`.")
    dag = open_dag(connection, selection.runs.dag_id)
    runs = lock_runs(connection, selection.runs)
    graphs = read_graphs(connection, runs)
    others = frozenset(TaskState) - {state, TaskState.REMOVED}
    marked = lock_tasks(connection, runs, choose(graphs, selection), chosen_states(selection, others))
    released = []
    if dag.is_active and state != TaskState.FAILED:
        released = _lock_released(connection, runs, graphs, marked)
    again = {task.dag_run_id for task in released} | _may_end_otherwise(runs, marked, state)
    plan = Plan(
        dag_id=dag.dag_id,
        locked=runs,
        tasks=[*((task, state) for task in marked), *((task, TaskState.NONE) for task in released)],
        runs=restarts(dag, [run for run in runs if run.id in again]),
    )
    changes = plan.changes()
    if changes and not dry_run:
        carry_out(connection, plan, Cause.MARKED, actor)
        record(connection, actor, f"task.mark_{state}", changes, selection)
    return changes


def mark_runs(
    connection: Connection, selection: RunSelection, state: RunState, *, actor: str, dry_run: bool = False
) -> Changes:
    """Mark runs success or failed.

    With success all task instances of the run are marked success. With failed those that have not ended do, as when the
    run is cancelled.

    Args:
        connection: the transaction.
        selection: the runs.
        state: success or failed.
        actor: who does it.
        dry_run: change nothing; only tell what would change.

    Raises:
        NotFoundError: there is no such DAG or run.
        RequestError: it is no selection.
    """
    if state not in RUN_MARKS:
        raise RequestError(f"A run can be marked {' or '.join(RUN_MARKS)}; not {state}.")
    dag = open_dag(connection, selection.dag_id)
    runs = lock_runs(connection, selection)
    if state == RunState.SUCCESS:
        others = frozenset(TaskState) - {TaskState.SUCCESS, TaskState.REMOVED}
        tasks = [(task, TaskState.SUCCESS) for task in lock_all_tasks(connection, runs, others)]
    else:
        tasks = [(task, ended_early(task)) for task in lock_all_tasks(connection, runs, UNFINISHED)]
    plan = Plan(dag.dag_id, runs, tasks, [(run, state) for run in runs if run.state != state])
    changes = plan.changes()
    if changes and not dry_run:
        carry_out(connection, plan, Cause.MARKED, actor)
        record(connection, actor, f"run.mark_{state}", changes, selection)
    return changes


def _lock_released(
    connection: Connection, runs: Sequence[LockedRun], graphs: dict[int, Content], marked: Sequence[LockedTask]
) -> list[LockedTask]:
    """Lock what is downstream of the marked task instances and did not run since something upstream had failed."""
    names = {task.task_id for task in marked}
    wanted = [
        WantedTask(version, task_id)
        for version, content in graphs.items()
        for task_id in downstream_of(content, names & content["tasks"].keys()) - names
    ]
    touched = [run for run in runs if any(task.dag_run_id == run.id for task in marked)]
    return lock_tasks(connection, touched, wanted, {TaskState.UPSTREAM_FAILED}) if wanted else []


def _may_end_otherwise(runs: Sequence[LockedRun], marked: Sequence[LockedTask], state: TaskState) -> set[int]:
    """Find the finished runs whose end the marked task instances may have changed."""
    doubtful = RunState.SUCCESS if state == TaskState.FAILED else RunState.FAILED
    touched = {task.dag_run_id for task in marked}
    return {run.id for run in runs if run.id in touched and run.state == doubtful}
