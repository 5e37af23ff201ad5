"""Trigger rules: what a task becomes, given the states of the tasks upstream of it."""

from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet

from turnout.metadata.states import TaskState

Upstream = Collection[AbstractSet[TaskState]]
"""For each upstream task, the distinct states of its instances."""

_FAILED = frozenset({TaskState.FAILED, TaskState.UPSTREAM_FAILED})


def all_success(upstream: Upstream) -> TaskState | None:
    """Run when every upstream task succeeded; fail or skip with the first that did not."""
    if any(states & _FAILED for states in upstream):
        return TaskState.UPSTREAM_FAILED
    if any(TaskState.SKIPPED in states for states in upstream):
        return TaskState.SKIPPED
    if all(states <= {TaskState.SUCCESS} for states in upstream):
        return TaskState.SCHEDULED
    return None


#: By name: returns the state that a waiting task takes now, or None to wait on.
RULES: dict[str, Callable[[Upstream], TaskState | None]] = {"all_success": all_success}
