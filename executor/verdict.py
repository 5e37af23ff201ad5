"""The verdict on an ended attempt: which state its task instance gets, and when it is tried again."""

from typing import Any

from turnout.executor.ending import Ending
from turnout.metadata.attempts import ClaimedAttempt, FinishedAttempt
from turnout.metadata.states import Outcome, TaskState
from turnout.tasks.retries import retry_delay_s


def judge(attempt: ClaimedAttempt, task: dict[str, Any], ending: Ending, max_infra_retries: int) -> FinishedAttempt:
    """Decide what becomes of a task instance after an attempt.

    Args:
        attempt: the attempt, as it was when it was claimed.
        task: the task in the serialized DAG version of its run.
        ending: how it ended.
        max_infra_retries: attempts that may be lost before the task fails.
    """
    if ending.kind == "success":
        return FinishedAttempt(attempt.key, TaskState.SUCCESS, Outcome.SUCCESS, return_value=ending.return_value)
    if ending.kind == "skipped":
        return FinishedAttempt(attempt.key, TaskState.SKIPPED, Outcome.SKIPPED)
    if ending.kind == "lost":
        if attempt.infra_failures < max_infra_retries:
            return FinishedAttempt(attempt.key, TaskState.SCHEDULED, Outcome.LOST, ending.cause, ending.error)
        error = f"{ending.error} Given up: {attempt.infra_failures + 1} attempts were lost (max_infra_retries)."
        return FinishedAttempt(attempt.key, TaskState.FAILED, Outcome.LOST, ending.cause, error)
    if ending.retry and used_tries(attempt) <= attempt.max_tries:
        delay_s = retry_delay_s(task, used_tries(attempt), attempt.attempt_id)
        return FinishedAttempt(
            attempt.key, TaskState.UP_FOR_RETRY, Outcome.FAILED, ending.cause, ending.error, retry_delay_s=delay_s
        )
    return FinishedAttempt(attempt.key, TaskState.FAILED, Outcome.FAILED, ending.cause, ending.error)


def used_tries(attempt: ClaimedAttempt) -> int:
    """Count the tries that the author's `retries` know of: those lost through no fault of the task are free."""
    return attempt.try_number - attempt.infra_failures
