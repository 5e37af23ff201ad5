"""Step 4, queue: priority is exact, no limit is ever exceeded, and nothing is queued that no worker could start."""

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, text

from tests import rows
from tests.control import Control, graph
from turnout.metadata.attempts import AttemptKey
from turnout.metadata.engine import transact
from turnout.metadata.messages import AttemptMessage
from turnout.metadata.pausing import set_paused
from turnout.metadata.queueing import count_active
from turnout.scheduler.queue import queue_ready

WIDE: dict[str, list[str]] = {f"t{number}": [] for number in range(30)}


def names(messages: Iterable[AttemptMessage]) -> list[str]:
    return [message.task_id for message in messages]


def pool(control: Control, name: str, slots: int) -> None:
    control.do(lambda c: rows.insert_pool(c, name, slots))


def wait(control: Control, dag_id: str, tasks: Iterable[str], **task: Any) -> int:
    """Let tasks of a new DAG wait for their slots."""
    return control.prepare(graph(dag_id, {name: [] for name in tasks}, task=task))


def keys_running(control: Control) -> list[AttemptKey]:
    return [AttemptKey(*row) for row in control.sql("SELECT id, attempt_id FROM task_instance WHERE state = 'running'")]


def test_priority_comes_first_then_the_date_of_the_run_then_age(control: Control) -> None:
    control.worker()
    wait(control, "low", ["low"], priority_weight=1)
    wait(control, "old", ["old"], priority_weight=1)
    wait(control, "high", ["high1", "high2"], priority_weight=7)
    control.sql("UPDATE task_instance SET run_date = '2013-01-01' WHERE dag_id = 'old'")
    assert names(control.queue(limit=1).messages) == ["high1"]
    assert names(control.queue().messages) == ["high2", "old", "low"]


def test_priority_holds_over_all_pools_and_queues_that_share_a_worker(control: Control) -> None:
    pool(control, "zoo", 10)
    control.worker(slots=2, queues=["default", "gpu"])
    wait(control, "many", WIDE, priority_weight=1)
    wait(control, "urgent", ["zoo"], priority_weight=5, pool="zoo")
    wait(control, "other", ["gpu"], priority_weight=3, queue="gpu")
    assert names(control.queue().messages) == ["zoo", "gpu"]


def test_no_more_is_queued_than_the_pool_has_slots(control: Control) -> None:
    pool(control, "small", 5)
    worker = control.worker()
    wait(control, "wide", WIDE, pool="small", pool_slots=2)
    first = control.queue().messages
    assert len(first) == 2
    control.claim(first, worker)
    assert control.queue().messages == []
    control.sql("UPDATE pool SET slots = 3 WHERE name = 'small'")
    control.finish(keys_running(control)[:1])
    assert control.queue().messages == []


def test_a_task_of_many_slots_is_not_starved_by_those_of_one(control: Control) -> None:
    pool(control, "small", 4)
    worker = control.worker()
    wait(control, "a", ["s1", "s2"], pool="small")
    control.claim(control.queue().messages, worker)
    wait(control, "b", ["big"], pool="small", pool_slots=4)
    wait(control, "c", ["s3", "s4"], pool="small")
    assert control.queue().messages == []
    control.finish(keys_running(control))
    assert names(control.queue().messages) == ["big"]


def test_a_task_that_fits_into_no_pool_holds_up_nobody(control: Control) -> None:
    control.worker()
    pool(control, "small", 2)
    wait(control, "a", ["huge"], pool="small", pool_slots=3, priority_weight=9)
    wait(control, "b", ["fits"], pool="small")
    assert names(control.queue().messages) == ["fits"]


def test_a_full_pool_holds_up_no_other(control: Control) -> None:
    control.worker()
    pool(control, "none", 0)
    wait(control, "a", WIDE, pool="none", priority_weight=9)
    wait(control, "b", ["fits"])
    assert names(control.queue().messages) == ["fits"]


def test_tasks_of_a_paused_dag_wait_and_hold_up_nobody(control: Control) -> None:
    control.worker(slots=1)
    wait(control, "paused", ["a"], priority_weight=9)
    wait(control, "other", ["b"])
    control.do(lambda c: set_paused(c, "paused", paused=True, actor="test"))
    assert names(control.queue().messages) == ["b"]


@pytest.mark.parametrize("state", ["alive", "dead", "stopped"])
def test_without_a_live_worker_of_its_queue_nothing_is_queued(control: Control, state: str) -> None:
    gone = control.worker()
    control.worker(queues=["gpu"])
    control.kill(gone)
    control.sql("UPDATE process SET state = :state WHERE id = :id", state=state, id=gone)
    wait(control, "a", ["a"])
    assert control.queue().messages == []


def test_a_worker_of_some_pools_gets_only_theirs(control: Control) -> None:
    pool(control, "etl", 5)
    control.worker(pools=["etl"])
    wait(control, "a", ["a"])
    wait(control, "b", ["b"], pool="etl")
    assert names(control.queue().messages) == ["b"]


def test_a_queue_gets_what_its_workers_can_start_soon(control: Control) -> None:
    worker = control.worker(slots=3)
    wait(control, "wide", WIDE)
    first = control.queue().messages
    assert len(first) == 3
    assert control.queue().messages == []
    control.claim(first, worker)
    assert control.queue().messages == []
    control.sql("UPDATE process SET finished_per_s = 8")  # so 4 are likely to end within half a second
    assert len(control.queue().messages) == 4


def test_a_pool_that_another_scheduler_holds_is_left_to_it_and_said_to_be_contended(control: Control) -> None:
    control.worker()
    pool(control, "etl", 5)
    wait(control, "a", ["a"])
    wait(control, "b", ["b"], pool="etl")
    with control.engine.begin() as other:
        other.execute(text("SELECT 1 FROM pool WHERE name = 'default_pool' FOR NO KEY UPDATE"))
        queued = control.queue()
        assert (names(queued.messages), queued.is_contended) == (["b"], True)
        assert control.queue().is_contended
    queued = control.queue()
    assert (names(queued.messages), queued.is_contended) == (["a"], False)


def test_a_message_names_the_attempt_for_people(control: Control) -> None:
    control.worker(queues=["gpu"])
    wait(control, "a", ["t"], queue="gpu")
    (message,) = control.queue().messages
    assert (message.dag_id, message.run_id, message.task_id, message.try_number) == ("a", "run", "t", 1)
    assert message.celery_queue == "default_pool.gpu"
    assert control.sql("SELECT attempt_id, scheduler_id FROM task_instance") == [
        (message.attempt_id, control.scheduler_id)
    ]


@pytest.mark.parametrize("turn", range(3))
def test_schedulers_at_the_same_time_never_use_more_slots_than_there_are(
    control: Control, engine: Engine, turn: int
) -> None:
    """Three schedulers queue, a worker claims and finishes; the database itself says how much was in use."""
    pool(control, "small", 7)
    worker = control.worker(slots=1000)
    tasks: dict[str, list[str]] = {f"t{number}": [] for number in range(60)}
    for name, slots in (("one", 1), ("two", 2), ("three", 3)):
        control.prepare(graph(f"{name}{turn}", tasks, task={"pool": "small", "pool_slots": slots}))
    done, most = threading.Event(), []

    def schedule(scheduler_id: int) -> None:
        while not done.is_set():
            messages = transact(engine, lambda c: queue_ready(c, scheduler_id, 500)).messages
            control.work(messages, worker)

    def watch() -> None:
        while not done.is_set():
            most.append(sum(count.pool_slots for count in transact(engine, count_active)))
            if not control.sql("SELECT 1 FROM task_instance WHERE state NOT IN ('success', 'failed') LIMIT 1"):
                done.set()

    schedulers = [control.do(rows.insert_scheduler) for _ in range(3)]
    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(schedule, scheduler_id) for scheduler_id in schedulers] + [threads.submit(watch)]
        for future in futures:
            future.result(60)
    assert 5 < max(most) <= 7
    assert control.sql("SELECT count(*) FROM task_instance WHERE try_number = 1") == [180]
