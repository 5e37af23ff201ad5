"""What a change comes to: first a plan, made from locked rows, and then carried out."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from turnout.metadata.changes.locking import LockedRun, LockedTask
from turnout.metadata.states import RunState, TaskState


@dataclass(frozen=True)
class TaskChange:
    """A task instance that changes, as people read it."""

    dag_id: str
    dag_run_id: str
    task_id: str
    map_index: int
    state: TaskState
    new_state: TaskState


@dataclass(frozen=True)
class RunChange:
    """A run that changes, as people read it."""

    dag_id: str
    dag_run_id: str
    state: RunState
    new_state: RunState


@dataclass(frozen=True)
class Changes:
    """What a change does, or would do."""

    dag_runs: list[RunChange] = field(default_factory=list)
    task_instances: list[TaskChange] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.dag_runs or self.task_instances)


@dataclass(frozen=True)
class Plan:
    """New states for locked rows.

    Attributes:
        dag_id: the DAG.
        locked: all runs that this transaction holds.
        tasks: task instances and their new states; `none` clears one.
        runs: runs and their new states; `queued` starts one again.
        new_version_id: the DAG version that runs get which start again; None: each keeps its own.
    """

    dag_id: str
    locked: Sequence[LockedRun]
    tasks: Sequence[tuple[LockedTask, TaskState]] = ()
    runs: Sequence[tuple[LockedRun, RunState]] = ()
    new_version_id: int | None = None

    def changes(self) -> Changes:
        """Tell what it does, in the order of the runs."""
        names = {run.id: run.run_id for run in self.locked}
        return Changes(
            [RunChange(self.dag_id, run.run_id, run.state, state) for run, state in self.runs],
            [
                TaskChange(self.dag_id, names[task.dag_run_id], task.task_id, task.map_index, task.state, state)
                for task, state in sorted(self.tasks, key=lambda move: (move[0].dag_run_id, move[0].id))
            ],
        )
