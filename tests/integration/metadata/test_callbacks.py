"""Callbacks in the database: every transition of the law that calls for one does so once, and one worker gets it."""

from collections.abc import Callable

import pytest
from sqlalchemy import Connection, Engine, text

from tests.control import Control, graph
from turnout.metadata import callbacks
from turnout.metadata.callbacks import ClaimedCallback
from turnout.metadata.changes.clear import clear
from turnout.metadata.changes.selection import RunSelection, TaskSelection
from turnout.metadata.engine import open_engine
from turnout.metadata.routing import set_queue_paused
from turnout.metadata.states import LAW, RUN_LAW, Law, RunState, TaskEvent, TaskState
from turnout.tasks.callbacks import TASK_EVENTS

EVERY = [*TaskEvent]
#: What a task instance's new state is called for; `skipped` by the rule below.
EVENTS = {
    TaskState.RUNNING: TaskEvent.EXECUTE,
    TaskState.SUCCESS: TaskEvent.SUCCESS,
    TaskState.FAILED: TaskEvent.FAILURE,
    TaskState.UP_FOR_RETRY: TaskEvent.RETRY,
}
RUN_EVENTS = {RunState.SUCCESS: TaskEvent.SUCCESS, RunState.FAILED: TaskEvent.FAILURE}
LIMIT = 3
_CASES = [(row, actor) for row in LAW for actor in row.actors]
_RUN_CASES = [(row, actor) for row in RUN_LAW for actor in row.actors]


def noop(_context: object) -> None:
    """A callback."""


@pytest.fixture
def control(engine: Engine) -> Control:
    return Control(engine)


@pytest.fixture
def run(control: Control) -> int:
    """A run of one task, both with callbacks for everything."""
    every = {f"on_{event}_callback": noop for event in EVERY}
    dag = graph("d", {"t": []}, task=every, on_success_callback=noop, on_failure_callback=noop)
    return control.prepare(dag)


def called_for(control: Control) -> list[tuple[str, str]]:
    """List the events of the callbacks, with the states that they tell."""
    return control.sql("SELECT event, subject_state FROM callback ORDER BY id")


def move(control: Control, table: str, row: Law, *, by_person: bool) -> None:
    """Bring the one row of a table into a state, forget what that called for, and then make one step of the law."""
    control.sql(f"ALTER TABLE {table} DISABLE TRIGGER law")
    needs = ", attempt_id = gen_random_uuid(), worker_id = 1, started_at = now(), next_try_at = now()"
    more = needs if table == "task_instance" else ""
    control.sql(f"UPDATE {table} SET state = :state{more}", state=row.before)  # noqa: S608  one of two tables
    control.sql("DELETE FROM callback")
    change = control.sql_of_person if by_person else control.sql
    step = f"UPDATE {table} SET state = :state WHERE state = :before"  # noqa: S608  one of two tables
    change(step, state=row.after, before=row.before)


def test_each_transition_of_a_task_calls_for_the_one_callback_that_it_should(control: Control, run: int) -> None:
    assert run
    for row, actor in _CASES:
        move(control, "task_instance", row, by_person=actor == "person")
        expected = EVENTS.get(row.after)  # type: ignore[call-overload]
        if row.after == TaskState.SKIPPED and (row.before == TaskState.RUNNING or actor == "person"):
            expected = TaskEvent.SKIPPED
        assert called_for(control) == ([(expected, row.after)] if expected else []), (row, actor)


def test_each_transition_of_a_run_calls_for_the_one_callback_that_it_should(control: Control, run: int) -> None:
    assert run
    for row, actor in _RUN_CASES:
        move(control, "dag_run", row, by_person=actor == "person")
        expected = RUN_EVENTS.get(row.after)  # type: ignore[call-overload]
        assert called_for(control) == ([(expected, row.after)] if expected else []), (row, actor)


def test_nothing_is_called_for_what_has_no_callbacks(control: Control) -> None:
    control.prepare(graph("d", {"t": []}, task={"on_failure_callback": noop}, on_failure_callback=noop))
    worker = control.worker()
    control.work(control.queue().messages, worker)
    control.decide()
    assert control.sql("SELECT state FROM dag_run") == ["success"]
    assert called_for(control) == []


def test_a_transition_that_is_undone_calls_for_nothing(control: Control, run: int) -> None:
    def break_off(connection: Connection) -> None:
        connection.execute(text("UPDATE task_instance SET state = 'success'"))
        raise ZeroDivisionError

    assert run
    control.sql("UPDATE task_instance SET state = 'queued', attempt_id = gen_random_uuid()")
    control.sql("UPDATE task_instance SET state = 'running', worker_id = 1, started_at = now()")
    control.sql("DELETE FROM callback")
    with pytest.raises(ZeroDivisionError):
        control.do(break_off)
    assert called_for(control) == []


def test_a_cleared_task_gets_the_callbacks_that_its_version_has_now(control: Control, run: int) -> None:
    worker = control.worker()
    control.work(control.queue().messages, worker)
    control.decide()
    assert control.run_state(run) == "success"
    control.declare(graph("d", {"t": []}, task={"on_retry_callback": noop}))
    asked = TaskSelection(RunSelection("d", run_id="run"), ("t",))
    control.do(lambda c: clear(c, asked, actor="ada", run_on_latest_version=True))
    assert control.sql("SELECT callbacks FROM task_instance") == [["retry"]]


@pytest.fixture
def call(control: Control, run: int) -> Callable[..., ClaimedCallback | None]:
    """A failed task that waits for its callback; claim it."""
    assert run
    control.sql_of_person("UPDATE task_instance SET state = 'failed', error = 'because', try_number = 2")

    def claim(worker: int) -> ClaimedCallback | None:
        return control.do(lambda c: callbacks.claim_next(c, worker, LIMIT))

    return claim


def test_one_worker_claims_a_callback_and_another_one_finds_none(
    control: Control, call: Callable[..., ClaimedCallback | None]
) -> None:
    first, second = control.worker(), control.worker()
    assert control.do(callbacks.are_waiting)
    claimed = call(first)
    assert claimed is not None
    assert (claimed.event, claimed.subject_state, claimed.error, claimed.tries) == ("failure", "failed", "because", 1)
    assert (claimed.subject.task_id, claimed.subject.run_id, claimed.subject.try_number) == ("t", "run", 2)
    assert call(second) is None
    assert not control.do(callbacks.are_waiting)


def test_two_workers_that_claim_at_the_same_time_do_not_wait_for_each_other(
    control: Control, call: Callable[..., ClaimedCallback | None], database_url: str
) -> None:
    first, second = control.worker(), control.worker()
    other = open_engine(database_url, name="other")
    with other.begin() as connection:
        assert callbacks.claim_next(connection, first, LIMIT) is not None
        assert call(second) is None
    other.dispose()


def test_a_worker_whose_lease_is_over_claims_nothing(
    control: Control, call: Callable[..., ClaimedCallback | None]
) -> None:
    worker = control.worker()
    control.kill(worker)
    assert call(worker) is None


def test_a_paused_queue_of_callbacks_gives_none(control: Control, call: Callable[..., ClaimedCallback | None]) -> None:
    worker = control.worker()
    control.do(lambda c: set_queue_paused(c, "callbacks", paused=True, actor="ada"))
    assert not control.do(callbacks.are_waiting)
    assert call(worker) is None
    control.do(lambda c: set_queue_paused(c, "callbacks", paused=False, actor="ada"))
    assert call(worker) is not None


def test_the_callback_of_a_lost_worker_goes_to_the_next_and_the_lost_one_cannot_finish_it(
    control: Control, call: Callable[..., ClaimedCallback | None]
) -> None:
    lost, next_one = control.worker(), control.worker()
    before = call(lost)
    control.sql("UPDATE process SET state = 'dead' WHERE id = :id", id=lost)
    after = call(next_one)
    assert before is not None
    assert after is not None
    assert (after.id, after.tries) == (before.id, 2)
    assert not control.do(lambda c: callbacks.finish(c, lost, before, problem=None, log=""))
    assert control.do(lambda c: callbacks.finish(c, next_one, after, problem="no", log="a\0b"))
    assert control.sql("SELECT state, problem, log FROM callback") == [("failed", "no", "a\N{REPLACEMENT CHARACTER}b")]


def test_a_callback_that_has_cost_too_many_workers_fails(
    control: Control, call: Callable[..., ClaimedCallback | None]
) -> None:
    for _ in range(LIMIT + 1):
        worker = control.worker()
        assert call(worker) is not None
        control.sql("UPDATE process SET state = 'dead' WHERE id = :id", id=worker)
    given_up = call(control.worker())
    assert given_up is not None
    assert given_up.state == "failed"
    assert control.sql("SELECT state, tries, problem FROM callback") == [
        ("failed", 4, "Given up: 4 workers were lost while they ran it (max_infra_retries).")
    ]


def test_authors_and_the_database_know_the_same_events() -> None:
    assert set(TASK_EVENTS) == set(TaskEvent)
