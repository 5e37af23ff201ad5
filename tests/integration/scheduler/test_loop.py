"""The loop: its steps together, on the real database and the real broker, with a worker that is played."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from pydantic import SecretStr

from tests.control import Control, graph
from tests.integration.scheduler.conftest import Away
from turnout.config.settings import Settings
from turnout.executor.publisher import CeleryBroker
from turnout.metadata import attempts
from turnout.metadata.attempts import AttemptKey
from turnout.metadata.errors import SchemaError
from turnout.metadata.states import TaskState
from turnout.metadata.wakeups import notify_schedulers
from turnout.scheduler.decide import decide
from turnout.scheduler.loop import Scheduler

Eventually = Callable[..., object]
QUEUE = "default_pool.default"
LINE: dict[str, list[str]] = {"a": [], "b": ["a"]}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A lease that is reported soon."""
    return settings.model_copy(update={"scheduler": settings.scheduler.model_copy(update={"lease_s": 3.0})})


@pytest.fixture
def scheduler(settings: Settings, broker: CeleryBroker, control: Control) -> Iterator[Scheduler]:
    """A scheduler that is not started, after the control has prepared the database."""
    assert control
    scheduler = Scheduler(settings, broker, "s1")
    yield scheduler
    scheduler.stop()


def queued(control: Control) -> list[AttemptKey]:
    return [AttemptKey(*row) for row in control.sql("SELECT id, attempt_id FROM task_instance WHERE state = 'queued'")]


def work(control: Control, worker: int, state: TaskState = TaskState.SUCCESS, **more: Any) -> None:
    """Do what is queued, and say so to the schedulers."""
    claimed = control.do(lambda c: attempts.claim_queued(c, worker, queued(control)))
    control.finish([attempt.key for attempt in claimed], state, **more)
    control.do(notify_schedulers)


def arrived(broker: CeleryBroker, messages: int) -> bool:
    return broker.depths([QUEUE]) == {QUEUE: messages}


def trigger(control: Control, dag_id: str) -> int:
    run = control.insert_run(dag_id)
    control.do(notify_schedulers)
    return run


def test_a_pass_takes_each_step_in_turn(
    control: Control, scheduler: Scheduler, broker: CeleryBroker, eventually: Eventually
) -> None:
    worker = control.worker()
    control.declare(graph("d", LINE))
    run = control.insert_run("d")
    scheduler._lease.start()
    scheduler._publisher.start()
    first = scheduler.run_once()
    assert (first.started, first.decided, first.moved, first.queued, first.finished) == (1, 1, 1, 1, 0)
    eventually(partial(arrived, broker, 1))
    work(control, worker)
    second = scheduler.run_once()
    assert (second.started, second.decided, second.moved, second.queued) == (0, 1, 1, 1)
    work(control, worker)
    third = scheduler.run_once()
    assert (third.finished, third.queued, third.did_something) == (1, 0, True)
    assert control.run_state(run) == "success"
    assert not scheduler.run_once().did_something


def test_news_that_move_nothing_are_followed_by_another_look(control: Control, scheduler: Scheduler) -> None:
    worker = control.worker()
    control.prepare(graph("d", {"a": [], "b": [], "end": ["a", "b"]}))
    scheduler._lease.start()
    control.work(control.queue().messages[:1], worker)
    done = scheduler.run_once()
    assert (done.decided, done.moved, done.did_something) == (1, 0, True)


def test_a_started_scheduler_runs_what_is_triggered_to_its_end(
    control: Control, scheduler: Scheduler, broker: CeleryBroker, eventually: Eventually
) -> None:
    worker = control.worker()
    control.declare(graph("d", LINE))
    scheduler.start()
    run = trigger(control, "d")
    for messages in (1, 2):
        eventually(partial(arrived, broker, messages))
        work(control, worker)
    eventually(lambda: control.run_state(run) == "success")
    eventually(lambda: control.sql("SELECT last_loop ->> 'queued' FROM process WHERE name = 's1'")[0])
    scheduler.stop()
    assert control.sql("SELECT state FROM process WHERE name = 's1'") == ["stopped"]


def test_a_sleeping_scheduler_wakes_up_by_itself_when_a_run_or_a_retry_is_due(
    control: Control, scheduler: Scheduler, eventually: Eventually
) -> None:
    worker = control.worker()
    control.declare(graph("d", {"a": []}, task={"retries": 1}))
    control.insert_run("d")
    control.sql("UPDATE dag_run SET run_after = now() + interval '0.3 s'")
    scheduler.start()
    eventually(lambda: queued(control))
    work(control, worker, TaskState.UP_FOR_RETRY, retry_delay_s=0.3)
    eventually(lambda: queued(control))


def test_a_scheduler_lives_through_an_outage_of_the_database(
    control: Control, scheduler: Scheduler, eventually: Eventually, database_away: Away
) -> None:
    control.worker()
    control.declare(graph("d", LINE))
    scheduler.start()
    with database_away():
        scheduler._waker._on_notify()
        eventually(lambda: scheduler._outage._failures)
    trigger(control, "d")
    eventually(lambda: queued(control))


def test_decisions_go_on_while_the_broker_is_away(
    control: Control, settings: Settings, eventually: Eventually, tmp_path: Any
) -> None:
    nowhere = settings.model_copy(update={"broker_url": SecretStr(f"redis+socket://{tmp_path}/nowhere.sock")})
    scheduler = Scheduler(nowhere, CeleryBroker(nowhere), "s2")
    worker = control.worker()
    control.declare(graph("d", LINE))
    scheduler.start()
    run = trigger(control, "d")
    for _ in range(2):
        eventually(lambda: queued(control))
        work(control, worker)
    eventually(lambda: control.run_state(run) == "success")
    scheduler.stop()


def test_a_bug_in_a_step_does_not_end_the_loop(
    control: Control, scheduler: Scheduler, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = iter([ValueError("a bug")])

    def faulty(*arguments: Any) -> Any:
        for fault in faults:
            raise fault
        return decide(*arguments)

    monkeypatch.setattr("turnout.scheduler.loop.decide", faulty)
    control.worker()
    control.declare(graph("d", LINE))
    scheduler.start()
    trigger(control, "d")
    eventually(lambda: queued(control))


def test_a_scheduler_that_lost_its_lease_goes_on_under_another_id(
    control: Control, settings: Settings, broker: CeleryBroker, eventually: Eventually
) -> None:
    often = settings.scheduler.model_copy(update={"repair_interval_s": 0.1})
    scheduler = Scheduler(settings.model_copy(update={"scheduler": often}), broker, "s1")
    control.worker()
    control.declare(graph("d", LINE))
    scheduler.start()
    first = scheduler._lease.process_id
    control.sql("UPDATE process SET state = 'dead' WHERE id = :id", id=first)
    trigger(control, "d")
    eventually(lambda: queued(control))
    (scheduler_id,) = control.sql("SELECT scheduler_id FROM task_instance WHERE state = 'queued'")
    assert scheduler_id != first
    scheduler.stop()


def test_a_scheduler_refuses_a_database_without_tables(control: Control, scheduler: Scheduler) -> None:
    control.sql("DELETE FROM alembic_version")
    with pytest.raises(SchemaError, match="run `turnout db migrate`"):
        scheduler.start()
    assert control.sql("SELECT count(*) FROM process WHERE name = 's1'") == [0]
