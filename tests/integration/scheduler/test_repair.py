"""Step 6, repair: what dead processes and lost messages leave behind is put back on its way; the living are let be."""

from collections.abc import Callable
from pathlib import Path

import pytest
import redis
import structlog
from pydantic import SecretStr
from sqlalchemy import Engine

from tests import rows
from tests.control import Control, graph
from turnout.config.settings import SchedulerSettings, Settings
from turnout.executor.publisher import CeleryBroker
from turnout.metadata.engine import transact
from turnout.metadata.errors import DatabaseUnavailableError
from turnout.metadata.messages import AttemptMessage, Broker
from turnout.metadata.processes import Registration
from turnout.metadata.stuck import unclaimed
from turnout.scheduler.lease import Lease
from turnout.scheduler.repair import Reaper, Repaired

pytestmark = pytest.mark.usefixtures("patient_reaper")

QUEUE = "default_pool.default"


class Steadiness:
    """Stands for the lease of the reaper's scheduler: what it says of its own past."""

    def __init__(self, *steady_s: float) -> None:
        self._said = list(steady_s)

    @property
    def steady_s(self) -> float:
        return self._said.pop(0) if len(self._said) > 1 else self._said[0]

    transact = staticmethod(transact)


Make = Callable[..., Reaper]


@pytest.fixture
def make(engine: Engine, settings: Settings, broker: Broker) -> Make:
    def make(*steady_s: float, broker: Broker = broker, **scheduler: float) -> Reaper:
        given = settings.model_copy(
            update={"scheduler": SchedulerSettings.model_validate({**dict(settings.scheduler), **scheduler})}
        )
        return Reaper(engine, broker, Steadiness(*(steady_s or (3600,))), given)  # type: ignore[arg-type]

    return make


@pytest.fixture
def worker(control: Control) -> int:
    return control.worker()


@pytest.fixture
def messages(control: Control, worker: int) -> list[AttemptMessage]:
    """The messages of three queued attempts."""
    assert worker
    control.prepare(graph("d", {"a": [], "b": [], "c": []}))
    return list(control.queue().messages)


def states(control: Control) -> list[tuple[str, str | None]]:
    return control.sql("SELECT state, cause FROM task_instance ORDER BY id")


def let_wait(control: Control) -> None:
    """Let the queued attempts have waited for a minute."""
    control.sql("UPDATE task_instance SET queued_at = queued_at - interval '1 minute'")


def test_what_a_dead_scheduler_queued_and_a_dead_worker_ran_is_scheduled_again(
    control: Control, make: Make, worker: int, messages: list[AttemptMessage]
) -> None:
    control.claim(messages[:1], worker)
    control.kill(worker)
    control.kill(control.scheduler_id)
    assert make().run_once() == Repaired(dead=2, attempts=3)
    assert sorted(states(control)) == [
        ("scheduled", "scheduler_lost"),
        ("scheduled", "scheduler_lost"),
        ("scheduled", "worker_lost"),
    ]
    assert make().run_once() == Repaired()


def test_what_the_living_have_is_let_be(
    control: Control, make: Make, broker: Broker, worker: int, messages: list[AttemptMessage]
) -> None:
    broker.publish(messages[1:])
    control.claim(messages[:1], worker)
    let_wait(control)
    assert make().run_once() == Repaired()
    assert sorted(states(control)) == [("queued", None), ("queued", None), ("running", None)]


@pytest.mark.parametrize("steady_s", [0, 9.9])
def test_nobody_is_declared_dead_before_a_whole_lease_with_the_database(
    control: Control, make: Make, worker: int, messages: list[AttemptMessage], steady_s: float
) -> None:
    control.claim(messages, worker)
    control.kill(worker)
    control.kill(control.scheduler_id)
    assert make(steady_s).run_once() == Repaired()
    assert control.sql("SELECT DISTINCT state FROM process") == ["alive"]


def test_each_kind_of_process_has_a_lease_of_its_own(
    control: Control, make: Make, worker: int, messages: list[AttemptMessage]
) -> None:
    control.kill(worker)
    control.kill(control.scheduler_id)
    assert messages
    assert make(12).run_once() == Repaired(dead=1, attempts=3)  # 10 s: schedulers; 15 s: workers
    assert control.sql("SELECT kind FROM process WHERE state = 'alive'") == ["worker"]


def test_nobody_is_declared_dead_by_a_statement_during_which_the_database_stood_still(
    control: Control, make: Make, worker: int
) -> None:
    control.kill(worker)
    with pytest.raises(DatabaseUnavailableError, match="stood still"):
        make(3600, 0).run_once()
    assert control.sql("SELECT DISTINCT state FROM process") == ["alive"]


def test_a_scheduler_that_has_been_there_for_a_lease_declares_the_dead_dead(
    control: Control, engine: Engine, settings: Settings, broker: Broker, eventually: Callable[..., object]
) -> None:
    short = settings.model_copy(update={"scheduler": SchedulerSettings(lease_s=1)})
    lease = Lease(settings.database.get_secret_value(), Registration("scheduler", "judge", 1))
    lease.start()
    control.kill(control.scheduler_id)
    reaper = Reaper(engine, broker, lease, short)
    assert reaper.run_once().dead == 0
    eventually(lambda: reaper.run_once().dead == 1)
    lease.stop()


def test_messages_that_the_broker_lost_are_returned_by_any_scheduler(
    control: Control, make: Make, broker: Broker, broker_client: "redis.Redis", messages: list[AttemptMessage]
) -> None:
    broker.publish(messages)
    let_wait(control)
    assert make().run_once() == Repaired()
    broker_client.flushdb()
    assert make().run_once() == Repaired(attempts=3)
    assert states(control) == [("scheduled", "message_lost")] * 3


def test_each_message_that_was_taken_for_lost_doubles_the_patience_with_the_next_up_to_eightfold(
    control: Control, messages: list[AttemptMessage]
) -> None:
    first = messages[0].task_instance_id

    def late_after(patience_s: float) -> bool:
        found = control.do(lambda c: unclaimed(c, patience_s))
        return next(one.is_late for one in found if one.task_instance_id == first)

    control.sql("UPDATE task_instance SET queued_at = now() - interval '100 s'")
    for lost, factor in enumerate((1, 2, 4, 8, 8)):
        assert late_after(99 / factor), lost
        assert not late_after(120 / factor), lost
        control.sql(
            """
            INSERT INTO task_attempt (attempt_id, task_instance_id, try_number, queue, outcome, cause)
            VALUES (gen_random_uuid(), :id, 0, 'default', 'returned', 'message_lost')
            """,
            id=first,
        )


def test_as_many_are_returned_as_messages_are_missing_and_the_oldest_first(
    control: Control, make: Make, broker: Broker, broker_client: "redis.Redis", messages: list[AttemptMessage]
) -> None:
    broker.publish(messages)
    broker_client.rpop(QUEUE)
    let_wait(control)
    control.sql(
        "UPDATE task_instance SET queued_at = now() - interval '1 hour' WHERE id = :id", id=messages[1].task_instance_id
    )
    assert make().run_once().attempts == 1
    assert control.sql("SELECT id FROM task_instance WHERE state = 'scheduled'") == [messages[1].task_instance_id]


def test_a_message_that_is_still_on_its_way_is_not_taken_for_lost(
    control: Control, make: Make, messages: list[AttemptMessage]
) -> None:
    assert messages
    assert make().run_once() == Repaired()
    assert states(control) == [("queued", None)] * 3


def test_what_waits_for_workers_that_are_gone_is_returned_and_says_so(
    control: Control, make: Make, broker: Broker, worker: int, messages: list[AttemptMessage]
) -> None:
    broker.publish(messages)
    let_wait(control)
    control.kill(worker)
    assert make(0).run_once().attempts == 3
    assert states(control) == [("scheduled", "no_worker")] * 3


def test_nothing_is_taken_for_lost_while_the_broker_cannot_be_asked(
    control: Control, make: Make, settings: Settings, tmp_path: Path, messages: list[AttemptMessage]
) -> None:
    assert messages
    let_wait(control)
    nowhere = SecretStr(f"redis+socket://{tmp_path}/nowhere.sock")
    away = CeleryBroker(settings.model_copy(update={"broker_url": nowhere}))
    reaper = make(broker=away)
    assert reaper.run_once() == Repaired()
    assert states(control) == [("queued", None)] * 3


def test_the_timer_says_when_the_reaper_runs(control: Control, make: Make, worker: int) -> None:
    control.kill(worker)
    reaper = make()
    assert reaper.due_in_s == 0
    assert reaper.run_if_due().dead == 1
    assert 3500 < reaper.due_in_s <= 3600
    control.kill(control.scheduler_id)
    assert reaper.run_if_due() == Repaired()


def test_the_sweep_asks_for_a_look_at_every_active_run(
    control: Control, make: Make, eventually: Callable[..., object]
) -> None:
    run = control.prepare(graph("d", {"a": []}))
    reaper = make(sweep_interval_s=0.001)

    def swept() -> bool:
        reaper.run_once()
        return control.sql("SELECT dag_run_id, task_id FROM wakeup") == [(run, None)]

    eventually(swept)


def test_the_sweep_tells_of_tasks_that_wait_for_a_pool_that_is_not_there(control: Control, make: Make) -> None:
    control.prepare(graph("d", {"a": [], "b": [], "c": []}))
    control.sql("UPDATE task_instance SET pool = 'warehouse' WHERE task_id <> 'c'")
    control.sql("""UPDATE task_instance SET extra_pools = '{"lake": 1, "default_pool": 1}' WHERE task_id <> 'b'""")
    reaper = make(sweep_interval_s=0.001)
    with structlog.testing.capture_logs() as said:
        while not any(entry["event"] == "pool.missing" for entry in said):
            reaper.run_once()
    missing = {entry["pool"]: entry for entry in said if entry["event"] == "pool.missing"}
    assert {pool: entry["waiting"] for pool, entry in missing.items()} == {"warehouse": 2, "lake": 2}
    assert missing["warehouse"]["remedy"] == "turnout pools set warehouse SLOTS"


def test_the_sweep_removes_what_keeps_a_run_from_its_end_though_its_version_does_not_have_it(
    control: Control, make: Make, worker: int, eventually: Callable[..., object]
) -> None:
    run = control.prepare(graph("d", {"a": [], "b": ["a"]}))
    other = control.prepare(graph("e", {"b": [], "c": ["b"]}), "untouched")
    running = control.queue().messages
    control.claim(running, worker)
    control.sql(
        """
        INSERT INTO task_instance (dag_run_id, dag_id, task_id, state, pool, pool_slots, queue, priority_weight,
                                   run_date, next_try_at)
        SELECT :run, 'd', state, state, 'default_pool', 1, 'default', 1, now(), now() + interval '1 h'
        FROM unnest(ARRAY['none', 'scheduled', 'up_for_retry', 'up_for_reschedule', 'deferred', 'skipped']) state
    """,
        run=run,
    )
    control.sql("UPDATE task_instance SET task_id = 'gone' WHERE task_id = 'a'")
    reaper = make(sweep_interval_s=0.001)
    eventually(lambda: reaper.run_once() and control.states(run)["none"] == "removed")
    assert control.states(run) == {
        "b": "none",
        "gone": "running",  # it comes to an end by itself
        "skipped": "skipped",
        **dict.fromkeys(("none", "scheduled", "up_for_retry", "up_for_reschedule", "deferred"), "removed"),
    }
    assert control.states(other) == {"b": "running", "c": "none"}


def test_what_needs_more_slots_than_its_pool_has_is_refused_at_once(control: Control, make: Make, worker: int) -> None:
    assert worker
    control.do(lambda c: rows.insert_pool(c, "small", 1))
    control.prepare(graph("d", {"huge": []}, task={"pool": "small", "pool_slots": 2}))
    assert make().run_once().attempts == 1
    assert states(control) == [("failed", "pool_too_small")]
