"""What becomes of a task instance after an attempt."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from turnout.executor.ending import Ending
from turnout.executor.verdict import judge
from turnout.metadata.attempts import ClaimedAttempt
from turnout.metadata.states import Cause, Outcome, TaskState

TASK = {"retry_delay_s": 30.0, "retry_exponential_backoff": 0.0, "max_retry_delay_s": None}
ATTEMPT_ID = UUID("01890000-0000-7000-8000-000000000001")
LOST = Ending("lost", cause=Cause.CHILD_KILLED, error="Killed.")


def attempt(**changes: Any) -> ClaimedAttempt:
    values: dict[str, Any] = {
        "task_instance_id": 7,
        "attempt_id": ATTEMPT_ID,
        "dag_run_id": 1,
        "dag_id": "d",
        "task_id": "t",
        "map_index": -1,
        "try_number": 1,
        "max_tries": 0,
        "infra_failures": 0,
        "run_id": "r",
        "run_type": "manual",
        "logical_date": None,
        "data_interval_start": None,
        "data_interval_end": None,
        "run_after": datetime(2026, 1, 1, tzinfo=UTC),
        "conf": {},
        "dag_version_id": 1,
        "file_path": "d.py",
    }
    return ClaimedAttempt(**(values | changes))


def test_a_success_keeps_its_return_value() -> None:
    finished = judge(attempt(), TASK, Ending("success", return_value="42"), 3)
    assert (finished.state, finished.outcome, finished.return_value) == (TaskState.SUCCESS, Outcome.SUCCESS, "42")


def test_a_skip_is_a_skip() -> None:
    finished = judge(attempt(), TASK, Ending("skipped"), 3)
    assert (finished.state, finished.outcome) == (TaskState.SKIPPED, Outcome.SKIPPED)


@pytest.mark.parametrize(
    ("try_number", "max_tries", "infra_failures", "state"),
    [
        (1, 0, 0, TaskState.FAILED),
        (1, 1, 0, TaskState.UP_FOR_RETRY),
        (2, 1, 0, TaskState.FAILED),
        (2, 1, 1, TaskState.UP_FOR_RETRY),  # one of the two was no fault of the task
        (4, 1, 2, TaskState.FAILED),
        (3, 2, 0, TaskState.FAILED),
    ],
)
def test_a_failure_is_retried_as_often_as_the_author_allows(
    try_number: int, max_tries: int, infra_failures: int, state: TaskState
) -> None:
    tried = attempt(try_number=try_number, max_tries=max_tries, infra_failures=infra_failures)
    finished = judge(tried, TASK, Ending("failed", cause=Cause.ERROR, error="boom"), 3)
    assert (finished.state, finished.outcome, finished.error) == (state, Outcome.FAILED, "boom")
    assert finished.retry_delay_s == (30.0 if state is TaskState.UP_FOR_RETRY else None)


def test_a_failure_for_good_is_not_retried() -> None:
    assert judge(attempt(max_tries=5), TASK, Ending("failed", retry=False), 3).state is TaskState.FAILED


@pytest.mark.parametrize(
    ("infra_failures", "state"), [(0, TaskState.SCHEDULED), (2, TaskState.SCHEDULED), (3, TaskState.FAILED)]
)
def test_a_lost_attempt_is_scheduled_again_up_to_a_limit_of_its_own(infra_failures: int, state: TaskState) -> None:
    lost = attempt(try_number=infra_failures + 1, infra_failures=infra_failures)
    finished = judge(lost, TASK, LOST, max_infra_retries=3)
    assert (finished.state, finished.outcome, finished.cause) == (state, Outcome.LOST, Cause.CHILD_KILLED)
    given_up = " Given up: 4 attempts were lost (max_infra_retries)." if state is TaskState.FAILED else ""
    assert finished.error == f"Killed.{given_up}"


def test_the_delay_of_a_retry_grows_with_the_tries_that_the_author_knows_of() -> None:
    task = {**TASK, "retry_exponential_backoff": 2.0}
    failed = Ending("failed")
    first = judge(attempt(try_number=1, max_tries=9), task, failed, 3).retry_delay_s
    after_losses = judge(attempt(try_number=3, infra_failures=2, max_tries=9), task, failed, 3).retry_delay_s
    third = judge(attempt(try_number=3, max_tries=9), task, failed, 3).retry_delay_s
    assert first is not None
    assert third is not None
    assert first == after_losses < third
