"""Clearing: task instances run again, as if they had not run before."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from turnout.metadata.changes.carrying_out import carry_out
from turnout.metadata.changes.choosing import choose, chosen_states, read_graphs
from turnout.metadata.changes.graph import with_setups
from turnout.metadata.changes.locking import (
    FoundDag,
    LockedRun,
    LockedTask,
    WantedTask,
    lock_runs,
    lock_tasks,
    open_dag,
    without_tasks,
)
from turnout.metadata.changes.plan import Changes, Plan
from turnout.metadata.changes.recording import record
from turnout.metadata.changes.selection import TaskSelection
from turnout.metadata.errors import ConflictError
from turnout.metadata.states import RUN_FINISHED, Cause, RunState, TaskState
from turnout.metadata.versions import Content

_CLEARABLE = frozenset(TaskState) - {TaskState.NONE}


def clear(
    connection: Connection,
    selection: TaskSelection,
    *,
    actor: str,
    run_on_latest_version: bool = False,
    dry_run: bool = False,
) -> Changes:
    """Clear task instances: any state → `none`, with new tries; a finished run starts again within `max_active_runs`.

    An attempt that is queued or running is ended; its child is stopped within about a second. The XComs of a cleared
    task instance are deleted, its earlier attempts and their logs stay. A setup that a cleared task needs is cleared
    with it, and so is the teardown of that setup. A run that was ended before it had started starts after all, unless
    only some of its tasks are asked for.

    Args:
        connection: the transaction.
        selection: what to clear.
        actor: who does it.
        run_on_latest_version: runs that start again get the current version of the DAG; else each keeps its own.
        dry_run: change nothing; only tell what would change.

    Raises:
        NotFoundError: there is no such DAG, run or task.
        ConflictError: no file declares the DAG any longer.
        RequestError: it is no selection.
    """
    dag = open_dag(connection, selection.runs.dag_id)
    if not dag.is_active:
        raise ConflictError(f"DAG {dag.dag_id} is no longer declared by {dag.file_path}: nothing of it can run again.")
    new_version_id = dag.current_version_id if run_on_latest_version else None
    runs = [_of_version(run, new_version_id) for run in lock_runs(connection, selection.runs)]
    graphs = read_graphs(connection, runs)
    tasks = lock_tasks(connection, runs, choose(graphs, selection), chosen_states(selection, _CLEARABLE))
    tasks += _lock_setups(connection, runs, graphs, tasks)
    cleared = {task.dag_run_id for task in tasks} | _never_begun(connection, runs, selection)
    plan = Plan(
        dag_id=dag.dag_id,
        locked=runs,
        tasks=[(task, TaskState.NONE) for task in tasks],
        runs=restarts(dag, [run for run in runs if run.id in cleared]),
        new_version_id=new_version_id,
    )
    changes = plan.changes()
    if changes and not dry_run:
        carry_out(connection, plan, Cause.CLEARED, actor)
        record(connection, actor, "task.clear", changes, selection)
    return changes


def restarts(dag: FoundDag, runs: Sequence[LockedRun]) -> list[tuple[LockedRun, RunState]]:
    """Plan that those runs which are finished start again; none of a DAG that no file declares any longer does."""
    return [(run, RunState.QUEUED) for run in runs if run.is_finished and dag.is_active]


def _never_begun(connection: Connection, runs: Sequence[LockedRun], selection: TaskSelection) -> set[int]:
    """Name those runs which were ended before they had any task instance; none when only some tasks are asked for."""
    if selection.task_ids or selection.only_running:
        return set()
    ended = {RunState.FAILED} if selection.only_failed else RUN_FINISHED
    return without_tasks(connection, [run for run in runs if run.state in ended])


def _of_version(run: LockedRun, version_id: int | None) -> LockedRun:
    return replace(run, dag_version_id=version_id) if version_id is not None and run.is_finished else run


def _lock_setups(
    connection: Connection, runs: Sequence[LockedRun], graphs: dict[int, Content], tasks: Sequence[LockedTask]
) -> list[LockedTask]:
    """Lock the setups that some task instances need, and the teardowns of these setups."""
    names: dict[int, set[str]] = defaultdict(set)
    for task in tasks:
        names[task.dag_run_id].add(task.task_id)
    missing = {
        run.id: with_setups(graphs[run.dag_version_id], names[run.id]) - names[run.id]
        for run in runs
        if run.dag_version_id is not None and run.id in names
    }
    wanted = {WantedTask(run.dag_version_id or 0, name) for run in runs for name in missing.get(run.id, ())}
    if not wanted:
        return []
    found = lock_tasks(connection, runs, wanted, _CLEARABLE)
    return [task for task in found if task.task_id in missing.get(task.dag_run_id, ())]
