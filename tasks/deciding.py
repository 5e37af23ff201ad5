"""How a run goes on: what its tasks become and how it ends, from the content of its DAG version and from states.

This is all that schedulers and `dag.test()` know of it; both keep states in their own way.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Literal

from turnout.tasks.trigger_rule import RUN, TriggerRule, Verdict, follow

#: The part `tasks` of the content of a DAG version.
Tasks = Mapping[str, Mapping[str, Any]]
#: For each task, the distinct states of its instances.
States = Mapping[str, AbstractSet[str]]

_FAILURES = frozenset({"failed", "upstream_failed"})


def needed_for(tasks: Tasks, task_id: str) -> Iterable[str]:
    """Name the tasks whose states decide what a task becomes."""
    task = tasks[task_id]
    return (*task["upstream"], *task["setups"])


def affected_by(tasks: Tasks, task_id: str) -> Iterable[str]:
    """Name the tasks for whose decision the state of a task is needed."""
    task = tasks[task_id]
    return (*task["downstream"], *task["setup_for"])


def verdict_on(tasks: Tasks, task_id: str, states: States) -> Verdict | None:
    """Say what a task becomes that nothing has happened to yet; None while it waits.

    The setups that it lies behind have the first word: it runs only when they succeeded, whatever its trigger rule.
    """
    task = tasks[task_id]
    around = follow(TriggerRule.ALL_SUCCESS, _of(task["setups"], states)) if task["setups"] else RUN
    if around != RUN:
        return around
    setups = [other for other in task["upstream"] if tasks[other]["is_setup"]]
    return follow(TriggerRule(task["trigger_rule"]), _of(task["upstream"], states), _of(setups, states))


def past_of(tasks: Tasks, task_id: str) -> Iterable[str]:
    """Name the tasks that must have succeeded, or been skipped, in the run before so that a task may run."""
    task = tasks[task_id]
    if not task["depends_on_past"]:
        return ()
    return (task_id, *task["downstream"]) if task["wait_for_downstream"] else (task_id,)


def past_for(tasks: Tasks, task_id: str) -> Iterable[str]:
    """Name the tasks that may wait in the next run for a task of this one."""
    task = tasks[task_id]
    if task["depends_on_past"]:
        yield task_id
    yield from (other for other in task["upstream"] if tasks[other]["wait_for_downstream"])


def leaves(tasks: Tasks) -> set[str]:
    """Name the tasks that decide how a run ends: those that no work follows, and teardowns that said so."""
    return {task_id for task_id, task in tasks.items() if _is_leaf(tasks, task)}


def run_ending(states_of_leaves: Iterable[AbstractSet[str]]) -> Literal["success", "failed"]:
    """Say how a run ended of which all task instances have: it failed if any of its leaves did."""
    return "failed" if any(states & _FAILURES for states in states_of_leaves) else "success"


def fails_run_fast(tasks: Tasks, task_id: str, states: AbstractSet[str]) -> bool:
    """Tell whether a task has failed that ends a run with `fail_fast`; teardowns do only if they said so."""
    task = tasks[task_id]
    return "failed" in states and (not task["is_teardown"] or task["on_failure_fail_dagrun"])


def _is_leaf(tasks: Tasks, task: Mapping[str, Any]) -> bool:
    if task["is_teardown"]:
        return bool(task["on_failure_fail_dagrun"])
    return all(tasks[other]["is_teardown"] for other in task["downstream"])


def _of(task_ids: Iterable[str], states: States) -> list[AbstractSet[str]]:
    return [states.get(task_id, frozenset()) for task_id in task_ids]
