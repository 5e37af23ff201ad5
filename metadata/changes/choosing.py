"""Choosing the tasks of a selection, run by run, by the graph of each run's DAG version."""

from collections.abc import Iterable

from sqlalchemy import Connection

from turnout.metadata.changes.graph import downstream_of, upstream_of
from turnout.metadata.changes.locking import LockedRun, WantedTask
from turnout.metadata.changes.selection import TaskSelection
from turnout.metadata.listings.missing import no_such
from turnout.metadata.states import TaskState
from turnout.metadata.versions import Content, VersionCache

_FAILED = frozenset({TaskState.FAILED, TaskState.UPSTREAM_FAILED})


def read_graphs(connection: Connection, runs: Iterable[LockedRun]) -> dict[int, Content]:
    """Read the contents of the DAG versions of some runs, those that never started left out."""
    return VersionCache().get(connection, {run.dag_version_id for run in runs if run.dag_version_id is not None})


def choose(graphs: dict[int, Content], selection: TaskSelection) -> list[WantedTask]:
    """Name the tasks that a selection means, in each DAG version that has them.

    Raises:
        NotFoundError: none of the versions has a task that it names.
    """
    known = {name for content in graphs.values() for name in content["tasks"]}
    for task_id in selection.task_ids:
        if graphs and task_id not in known:
            dag_id = selection.runs.dag_id
            raise no_such(f"task in DAG {dag_id} called", task_id, known, f"See `turnout dags show {dag_id}`.")
    return [
        WantedTask(version, task_id, selection.map_index if task_id in selection.task_ids else None)
        for version, content in graphs.items()
        for task_id in sorted(_reached(content, selection))
    ]


def chosen_states(selection: TaskSelection, among: Iterable[TaskState]) -> set[TaskState]:
    """Narrow states down to those that a selection asks for."""
    states = set(among)
    if selection.only_failed:
        states &= _FAILED
    if selection.only_running:
        states &= {TaskState.RUNNING}
    return states


def _reached(content: Content, selection: TaskSelection) -> set[str]:
    named = content["tasks"].keys() & set(selection.task_ids) if selection.task_ids else set(content["tasks"])
    reached = set(named)
    if selection.upstream:
        reached |= upstream_of(content, named)
    if selection.downstream:
        reached |= downstream_of(content, named)
    return reached
