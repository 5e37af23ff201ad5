"""The life of an attempt: each step a compare-and-set, so that only the current attempt of a task can take it."""

from uuid import uuid4

import pytest

from tests.control import Control, graph, key_of
from turnout.metadata import attempts, queueing, xcom
from turnout.metadata.attempts import AttemptKey, ClaimedAttempt, FinishedAttempt
from turnout.metadata.messages import AttemptMessage
from turnout.metadata.states import Cause, Outcome, TaskState

MAX_INFRA_RETRIES = 3


@pytest.fixture
def worker(control: Control) -> int:
    return control.worker()


@pytest.fixture
def message(control: Control, worker: int) -> AttemptMessage:
    """The message of the only task of a run."""
    assert worker
    control.prepare(graph("one", {"a": []}, task={"retries": 2}))
    (message,) = control.queue().messages
    return message


def task(control: Control, columns: str) -> object:
    (row,) = control.sql(f"SELECT {columns} FROM task_instance")  # noqa: S608
    return row


def lose(control: Control) -> list[AttemptKey]:
    lost = control.do(lambda c: attempts.lose_by_dead_workers(c, MAX_INFRA_RETRIES))
    return [AttemptKey(one.task_instance_id, one.attempt_id) for one in lost]


def give_back(control: Control, *messages: AttemptMessage) -> list[AttemptKey]:
    keys = [key_of(message) for message in messages]
    return control.do(lambda c: attempts.give_back_queued(c, keys, Cause.WORKER_STOPPED))


def queue_again(control: Control) -> AttemptMessage:
    (message,) = control.queue().messages
    return message


def test_a_claim_hands_over_all_that_the_attempt_needs(control: Control, worker: int, message: AttemptMessage) -> None:
    (claimed,) = control.claim([message], worker)
    assert claimed.key == key_of(message)
    assert (claimed.dag_id, claimed.run_id, claimed.task_id, claimed.map_index) == ("one", "run", "a", -1)
    assert (claimed.try_number, claimed.max_tries, claimed.infra_failures) == (message.try_number, 2, 0)
    assert (claimed.file_path, claimed.conf, claimed.run_type) == ("test.py", {}, "manual")
    assert task(control, "state, worker_id") == ("running", worker)


def test_a_message_that_comes_several_times_is_claimed_once(
    control: Control, worker: int, message: AttemptMessage
) -> None:
    assert len(control.claim([message, message], worker)) == 1
    assert control.claim([message], worker) == []
    assert task(control, "try_number") == 1


def test_an_attempt_id_of_before_can_neither_start_nor_finish(
    control: Control, worker: int, message: AttemptMessage
) -> None:
    give_back(control, message)
    current = queue_again(control)
    assert control.claim([message], worker) == []
    assert control.claim([current], worker)
    assert control.finish([key_of(message)]) == []
    assert give_back(control, message) == []
    assert task(control, "state") == "running"


def test_a_worker_whose_lease_is_over_claims_nothing(control: Control, message: AttemptMessage) -> None:
    late = control.worker()
    control.kill(late)
    assert control.claim([message], late) == []
    assert control.claim([message], worker_id=-1) == []
    assert task(control, "state") == "queued"


def test_an_attempt_is_finished_once(control: Control, worker: int, message: AttemptMessage) -> None:
    (claimed,) = control.claim([message], worker)
    assert control.finish([claimed.key], TaskState.FAILED, cause=Cause.ERROR, error="ValueError: no") == [claimed.key]
    assert control.finish([claimed.key]) == []
    assert task(control, "state, outcome, cause, error") == ("failed", "failed", "error", "ValueError: no")


def test_an_attempt_that_nobody_claimed_cannot_be_finished(control: Control, message: AttemptMessage) -> None:
    assert control.finish([key_of(message), AttemptKey(-1, uuid4())]) == []
    assert task(control, "state") == "queued"


def test_an_outcome_leaves_a_wake_up_when_others_may_go_on(
    control: Control, worker: int, message: AttemptMessage
) -> None:
    (claimed,) = control.claim([message], worker)
    control.finish([claimed.key], TaskState.UP_FOR_RETRY, retry_delay_s=60)
    assert control.sql("SELECT count(*) FROM wakeup") == [0]
    assert control.sql("SELECT next_try_at - ended_at > interval '59 s' FROM task_instance") == [True]
    control.sql("UPDATE task_instance SET next_try_at = now()")
    control.decide()
    control.work([queue_again(control)], worker)
    assert control.sql("SELECT dag_run_id, task_id FROM wakeup") == [(claimed.dag_run_id, "a")]


def test_a_return_value_replaces_that_of_an_earlier_attempt(
    control: Control, worker: int, message: AttemptMessage
) -> None:
    (claimed,) = control.claim([message], worker)
    control.finish([claimed.key], TaskState.UP_FOR_RETRY, retry_delay_s=0, return_value='{"old": 1}')
    control.decide()
    (again,) = control.claim([queue_again(control)], worker)
    control.finish([again.key], return_value="[1, null]")
    assert control.do(lambda c: xcom.pull(c, again.dag_run_id, "a", -1, "return_value")) == [1, None]


def test_a_refused_outcome_in_the_batch_of_the_accepted_one_pushes_nothing(
    control: Control, worker: int, message: AttemptMessage
) -> None:
    give_back(control, message)
    (claimed,) = control.claim([queue_again(control)], worker)
    batch = [
        FinishedAttempt(key_of(message), TaskState.SUCCESS, Outcome.SUCCESS, return_value='"stale"'),
        FinishedAttempt(claimed.key, TaskState.SUCCESS, Outcome.SUCCESS, return_value='"current"'),
    ]
    assert control.do(lambda c: attempts.finish_if_running(c, batch)) == [claimed.key]
    assert control.sql("SELECT value FROM xcom") == ["current"]


def test_a_value_that_was_never_pushed_is_a_lookup_error(control: Control) -> None:
    with pytest.raises(LookupError, match="Task a has pushed no XCom 'k'"):
        control.do(lambda c: xcom.pull(c, 1, "a", -1, "k"))


def test_giving_back_counts_no_try(control: Control, worker: int, message: AttemptMessage) -> None:
    assert give_back(control, message) == [key_of(message)]
    assert task(control, "state, outcome, cause, try_number") == ("scheduled", "returned", "worker_stopped", 0)
    assert queue_again(control).try_number == message.try_number == 1
    assert task(control, "outcome IS NULL AND cause IS NULL AND ended_at IS NULL AND worker_id IS NULL") is True
    assert worker


def test_what_runs_cannot_be_given_back(control: Control, worker: int, message: AttemptMessage) -> None:
    control.claim([message], worker)
    assert give_back(control, message) == []


def test_an_attempt_is_archived_exactly_once_when_the_next_is_queued(
    control: Control, worker: int, message: AttemptMessage
) -> None:
    (claimed,) = control.claim([message], worker)
    control.finish([claimed.key], TaskState.UP_FOR_RETRY, retry_delay_s=0, cause=Cause.TIMEOUT, error="too long")
    assert control.sql("SELECT count(*) FROM task_attempt") == [0]
    control.decide()
    second = queue_again(control)
    give_back(control, second)
    queue_again(control)
    archived = control.sql(
        "SELECT attempt_id, try_number, worker_id, outcome, cause, error FROM task_attempt ORDER BY queued_at"
    )
    assert archived == [
        (message.attempt_id, 1, worker, "failed", "timeout", "too long"),
        (second.attempt_id, 1, None, "returned", "worker_stopped", None),
    ]


def test_attempts_of_a_dead_worker_are_scheduled_again_with_the_cause(
    control: Control, worker: int, message: AttemptMessage
) -> None:
    control.claim([message], worker)
    assert lose(control) == []
    control.sql("UPDATE process SET state = 'dead' WHERE id = :id", id=worker)
    assert lose(control) == [key_of(message)]
    assert task(control, "state, outcome, cause, infra_failures, try_number") == (
        "scheduled",
        "lost",
        "worker_lost",
        1,
        1,
    )
    assert control.finish([key_of(message)]) == []
    assert lose(control) == []


def test_above_their_limit_lost_attempts_fail_the_task(control: Control, message: AttemptMessage) -> None:
    for number in range(MAX_INFRA_RETRIES + 1):
        worker = control.worker()
        control.claim([message if number == 0 else queue_again(control)], worker)
        control.sql("UPDATE process SET state = 'dead' WHERE id = :id", id=worker)
        lose(control)
    assert task(control, "state, infra_failures") == ("failed", MAX_INFRA_RETRIES + 1)
    control.decide()
    assert control.sql("SELECT state FROM dag_run") == ["failed"]


def test_attempts_of_a_worker_whose_row_is_gone_are_lost_too(
    control: Control, worker: int, message: AttemptMessage
) -> None:
    control.claim([message], worker)
    control.sql("DELETE FROM process WHERE id = :id", id=worker)
    assert lose(control) == [key_of(message)]


def test_what_a_dead_scheduler_queued_goes_back_unless_it_runs(control: Control, worker: int) -> None:
    control.prepare(graph("two", {"a": [], "b": []}))
    claimed, waiting = control.queue().messages
    control.claim([claimed], worker)
    assert control.do(attempts.give_back_by_dead_schedulers) == []
    control.sql("UPDATE process SET state = 'dead' WHERE id = :id", id=control.scheduler_id)
    assert control.do(attempts.give_back_by_dead_schedulers) == [key_of(waiting)]
    states = control.sql("SELECT state, cause FROM task_instance ORDER BY id = :id", id=waiting.task_instance_id)
    assert states == [("running", None), ("scheduled", "scheduler_lost")]


def test_the_attempts_of_a_worker_can_be_listed(control: Control, worker: int, message: AttemptMessage) -> None:
    (claimed,) = control.claim([message], worker)
    assert isinstance(claimed, ClaimedAttempt)
    assert control.do(lambda c: attempts.running_on(c, worker)) == {claimed.key}
    assert control.do(lambda c: attempts.running_on(c, -1)) == set()


def test_late_queueing_by_a_scheduler_whose_term_is_over_counts_for_nothing(control: Control, worker: int) -> None:
    assert worker
    control.prepare(graph("one", {"a": []}))
    (waiting,) = control.sql("SELECT id FROM task_instance")
    control.kill(control.scheduler_id)
    assert control.do(lambda c: queueing.queue_scheduled(c, control.scheduler_id, [waiting])) == []
    assert task(control, "state, attempt_id") == ("scheduled", None)


def test_an_error_that_postgresql_cannot_hold_is_kept_as_well_as_it_can(
    control: Control, worker: int, message: AttemptMessage
) -> None:
    (claimed,) = control.claim([message], worker)
    control.finish([claimed.key], TaskState.FAILED, cause=Cause.ERROR, error="half \ud800, NUL \x00")
    assert task(control, "error") == "half ?, NUL"
