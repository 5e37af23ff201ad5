"""Reasons of a task instance that has run and waits to run again."""

from turnout.metadata.listings.explanations import Reason, Why
from turnout.metadata.listings.spoken import duration
from turnout.metadata.listings.task_facts import TaskFacts
from turnout.metadata.states import TaskState


def time_reasons(task: TaskFacts) -> list[Reason]:
    """Say until when a task instance waits, or for what; nothing when its time has come."""
    if task.state == TaskState.DEFERRED:
        message = f"Task {task.task_id} has deferred itself, and waits for its trigger to fire."
        return [Reason(Why.DEFERRED, message, "Look whether a triggerer runs, and what the task waits for.")]
    if task.next_try_at is None or task.next_try_at <= task.now:
        return []
    at = f"{task.next_try_at:%Y-%m-%d %H:%M:%S} UTC, in {duration((task.next_try_at - task.now).total_seconds())}"
    if task.state == TaskState.UP_FOR_RESCHEDULE:
        message, why = f"It looks again at {at}.", Why.RESCHEDULE_TIME
        remedy = "Wait."
    else:
        used = task.try_number - task.infra_failures
        message = f"Try {used} of {task.max_tries + 1} failed{_because(task)}; it is tried again at {at}."
        why = Why.RETRY_TIME
        remedy = f"Wait, or try at once: turnout tasks clear {task.dag_id} {task.run_id} -t {task.task_id}"
    return [Reason(why, message, remedy, until=task.next_try_at)]


def _because(task: TaskFacts) -> str:
    return f" ({' '.join(task.error.split())[:200]})" if task.error else ""
