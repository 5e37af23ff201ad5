"""Locking what a person is about to change: runs, then task instances, each in the order of their ids."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from turnout.metadata.changes.selection import RunSelection
from turnout.metadata.listings.dags import require_dag
from turnout.metadata.listings.runs import find_run
from turnout.metadata.persons import act_as_person
from turnout.metadata.states import RUN_FINISHED, RunState, TaskState


@dataclass(frozen=True)
class FoundDag:
    """A DAG of which a person changes something; its row is not locked."""

    dag_id: str
    is_active: bool
    file_path: str
    current_version_id: int | None


@dataclass(frozen=True)
class LockedRun:
    """A run whose row this transaction holds, so that it is not started, and nothing of it decided."""

    id: int
    run_id: str
    state: RunState
    dag_version_id: int | None

    @property
    def is_finished(self) -> bool:
        """Whether it has ended."""
        return self.state in RUN_FINISHED


@dataclass(frozen=True)
class LockedTask:
    """A task instance whose row this transaction holds."""

    id: int
    dag_run_id: int
    task_id: str
    map_index: int
    state: TaskState


@dataclass(frozen=True)
class WantedTask:
    """A task in runs of one DAG version."""

    dag_version_id: int
    task_id: str
    map_index: int | None = None  # None: all its instances


_FIND_DAG = text("SELECT dag_id, is_active, file_path, current_version_id FROM dag WHERE dag_id = :dag_id")

_COLUMNS = "r.id, r.run_id, r.state, r.dag_version_id"

_LOCK_RUN = text(f"SELECT {_COLUMNS} FROM dag_run r WHERE r.id = :id FOR NO KEY UPDATE")  # noqa: S608  a constant

_LOCK_RUNS = text(f"""
    SELECT {_COLUMNS} FROM dag_run r
    WHERE r.dag_id = :dag_id
      AND (CAST(:first AS timestamptz) IS NULL OR COALESCE(r.logical_date, r.run_after) >= :first)
      AND (CAST(:last AS timestamptz) IS NULL OR COALESCE(r.logical_date, r.run_after) <= :last)
    ORDER BY r.id
    FOR NO KEY UPDATE
""")  # noqa: S608  only constants of this module

_LOCK_TASKS = text("""
    SELECT t.id, t.dag_run_id, t.task_id, t.map_index, t.state
    FROM unnest(CAST(:runs AS bigint[]), CAST(:versions AS bigint[])) AS r (id, version)
    JOIN unnest(CAST(:task_versions AS bigint[]), CAST(:tasks AS text[]), CAST(:map_indexes AS int[]))
         AS w (version, task_id, map_index) USING (version)
    JOIN task_instance t ON t.dag_run_id = r.id AND t.task_id = w.task_id
    WHERE t.state = ANY(:states) AND (w.map_index IS NULL OR t.map_index = w.map_index)
    ORDER BY t.id
    FOR NO KEY UPDATE OF t
""")

_LOCK_ALL_TASKS = text("""
    SELECT t.id, t.dag_run_id, t.task_id, t.map_index, t.state FROM task_instance t
    WHERE t.dag_run_id = ANY(:runs) AND t.state = ANY(:states)
    ORDER BY t.id
    FOR NO KEY UPDATE
""")


_WITHOUT_TASKS = text("""
    SELECT r.id FROM dag_run r
    WHERE r.id = ANY(CAST(:runs AS bigint[]))
      AND NOT EXISTS (SELECT FROM task_instance t WHERE t.dag_run_id = r.id)
""")


def open_dag(connection: Connection, dag_id: str) -> FoundDag:
    """Begin a person's change of something of a DAG.

    Raises:
        NotFoundError: there is no such DAG.
    """
    act_as_person(connection)
    row = connection.execute(_FIND_DAG, {"dag_id": dag_id}).one_or_none()
    if row is None:
        require_dag(connection, dag_id)
        return open_dag(connection, dag_id)  # it came into being between the two statements
    return FoundDag(row.dag_id, row.is_active, row.file_path, row.current_version_id)


def lock_runs(connection: Connection, selection: RunSelection) -> list[LockedRun]:
    """Lock the runs of a selection.

    Raises:
        NotFoundError: there is no such run.
        RequestError: it is no selection.
    """
    selection.check()
    if selection.run_id is not None and not (selection.past or selection.future):
        return [_lock_run(connection, selection.dag_id, selection.run_id)]
    first, last = _range(connection, selection)
    rows = connection.execute(_LOCK_RUNS, {"dag_id": selection.dag_id, "first": first, "last": last})
    return [_run(row) for row in rows]


def lock_all_runs(connection: Connection, dag_id: str) -> list[LockedRun]:
    """Lock all runs of a DAG."""
    rows = connection.execute(_LOCK_RUNS, {"dag_id": dag_id, "first": None, "last": None})
    return [_run(row) for row in rows]


def without_tasks(connection: Connection, runs: Iterable[LockedRun]) -> set[int]:
    """Say which of some runs, whose rows are locked, have no task instance."""
    return set(connection.scalars(_WITHOUT_TASKS, {"runs": [run.id for run in runs]}))


def lock_tasks(
    connection: Connection, runs: Iterable[LockedRun], wanted: Iterable[WantedTask], states: Iterable[TaskState]
) -> list[LockedTask]:
    """Lock those instances of some tasks of some runs that are in one of some states."""
    known = [(run.id, run.dag_version_id) for run in runs if run.dag_version_id is not None]
    asked = [(task.dag_version_id, task.task_id, task.map_index) for task in wanted]
    rows = connection.execute(
        _LOCK_TASKS,
        {
            "runs": [run for run, _ in known],
            "versions": [version for _, version in known],
            "task_versions": [version for version, _, _ in asked],
            "tasks": [task for _, task, _ in asked],
            "map_indexes": [map_index for _, _, map_index in asked],
            "states": list(states),
        },
    )
    return [_task(row) for row in rows]


def lock_all_tasks(connection: Connection, runs: Sequence[LockedRun], states: Iterable[TaskState]) -> list[LockedTask]:
    """Lock the task instances of some runs that are in one of some states."""
    rows = connection.execute(_LOCK_ALL_TASKS, {"runs": [run.id for run in runs], "states": list(states)})
    return [_task(row) for row in rows]


def _lock_run(connection: Connection, dag_id: str, run_id: str) -> LockedRun:
    row = connection.execute(_LOCK_RUN, {"id": find_run(connection, dag_id, run_id)}).one_or_none()
    if row is None:  # it was deleted while this waited for it: say that it is not there
        return _lock_run(connection, dag_id, run_id)
    return _run(row)


def _range(connection: Connection, selection: RunSelection) -> tuple[datetime | None, datetime | None]:
    if selection.run_id is None:
        return selection.from_date, selection.to_date
    date: datetime | None = connection.scalar(
        text("SELECT COALESCE(logical_date, run_after) FROM dag_run WHERE id = :id"),
        {"id": find_run(connection, selection.dag_id, selection.run_id)},
    )
    return None if selection.past else date, None if selection.future else date


def _run(row: Row[Any]) -> LockedRun:
    return LockedRun(row.id, row.run_id, RunState(row.state), row.dag_version_id)


def _task(row: Row[Any]) -> LockedTask:
    return LockedTask(row.id, row.dag_run_id, row.task_id, row.map_index, TaskState(row.state))
