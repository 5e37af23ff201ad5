"""Step 4, limits: none is exceeded, and what one of them stops hides nobody."""

import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, text

from tests import rows
from tests.control import Control, graph, key_of
from turnout.metadata import queueing, stuck
from turnout.metadata.engine import transact
from turnout.metadata.messages import AttemptMessage
from turnout.metadata.pools import Rate, set_pool
from turnout.scheduler.queue import OTHERS_TURN_S, queue_ready, soonest


def names(messages: Iterable[AttemptMessage]) -> list[str]:
    return [message.task_id for message in messages]


def pool(control: Control, name: str, slots: int, **more: Any) -> None:
    given = {"description": None, "include_deferred": None, "actor": "test", **more}
    control.do(lambda c: set_pool(c, name, slots, **given))


def wait(control: Control, dag_id: str, tasks: Iterable[str], *, dag: Any = None, **task: Any) -> int:
    """Let tasks of a new DAG wait for their slots."""
    return control.prepare(graph(dag_id, {name: [] for name in tasks}, task=task, **(dag or {})))


def again(control: Control, dag_id: str, run_id: str) -> int:
    """Let the tasks of another run wait."""
    run = control.insert_run(dag_id, run_id)
    control.start()
    control.decide()
    return run


def finish_all(control: Control, messages: Iterable[AttemptMessage], worker: int) -> None:
    control.work(list(messages), worker)


def many(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number:04}" for number in range(count)]


def test_a_run_has_no_more_active_tasks_than_its_dag_allows_and_hides_nobody(control: Control) -> None:
    worker = control.worker(slots=6)
    wait(control, "wide", many("w", 50), dag={"max_active_tasks": 2}, priority_weight=9)
    wait(control, "other", many("o", 10))
    first = control.queue().messages
    assert Counter(name[0] for name in names(first)) == {"w": 2, "o": 4}
    assert control.queue().messages == []
    finish_all(control, first, worker)
    assert Counter(name[0] for name in names(control.queue().messages)) == {"w": 2, "o": 4}


def test_the_limit_of_a_run_counts_its_tasks_in_all_pools(control: Control) -> None:
    control.worker()
    pool(control, "etl", 10)
    run = wait(control, "d", many("a", 5), dag={"max_active_tasks": 3})
    control.sql("UPDATE task_instance SET pool = 'etl' WHERE task_id > 'a0001'")
    assert len(control.queue().messages) == 3
    control.sql("UPDATE dag SET max_active_tasks = 4")
    assert len(control.queue().messages) == 1
    assert Counter(control.states(run).values()) == {"queued": 4, "scheduled": 1}


def test_a_task_is_active_in_no_more_runs_than_it_allows_and_hides_nobody(control: Control) -> None:
    worker = control.worker(slots=20)
    wait(control, "d", ["t", "free"], dag={"max_active_runs": 10})
    control.sql("UPDATE task_instance SET max_active_tis_per_dag = 2, priority_weight = 9 WHERE task_id = 't'")
    for number in range(4):
        again(control, "d", f"r{number}")
    control.sql("UPDATE task_instance SET max_active_tis_per_dag = 2, priority_weight = 9 WHERE task_id = 't'")
    first = control.queue().messages
    assert Counter(names(first)) == {"t": 2, "free": 5}
    finish_all(control, first, worker)
    assert Counter(names(control.queue().messages)) == {"t": 2}


def test_a_mapped_task_has_no_more_active_instances_in_one_run_than_it_allows(control: Control) -> None:
    worker = control.worker(slots=20)
    wait(control, "d", ["t", "free"], dag={"max_active_runs": 10})
    again(control, "d", "second")
    control.sql("UPDATE task_instance SET max_active_tis_per_dagrun = 3, priority_weight = 9 WHERE task_id = 't'")
    control.sql("""
        INSERT INTO task_instance (dag_run_id, dag_id, task_id, map_index, state, pool, pool_slots, queue,
                                   priority_weight, max_active_tis_per_dagrun)
        SELECT dag_run_id, dag_id, task_id, n, state, pool, pool_slots, queue, 9, 3
        FROM task_instance, generate_series(0, 40) n WHERE task_id = 't'
    """)
    first = control.queue().messages
    assert Counter((message.run_id, message.task_id) for message in first) == {
        ("run", "t"): 3,
        ("second", "t"): 3,
        ("run", "free"): 1,
        ("second", "free"): 1,
    }
    finish_all(control, first[:1], worker)
    assert names(control.queue().messages) == ["t"]


def test_what_is_stopped_in_one_pool_lets_nobody_of_another_overtake_what_waits_behind_it(control: Control) -> None:
    worker = control.worker(slots=2)
    pool(control, "etl", 10)
    wait(control, "full", many("f", 5), dag={"max_active_tasks": 1}, pool="etl", priority_weight=9)
    control.claim(control.queue().messages, worker)
    wait(control, "next", ["next"], pool="etl", priority_weight=5)
    wait(control, "last", ["last"])
    assert names(control.queue().messages) == ["next"]


def test_no_more_are_queued_in_one_pass_than_it_may_from_all_pools_together(control: Control) -> None:
    control.worker()
    pool(control, "etl", 10)
    wait(control, "a", many("a", 2), pool="etl")
    wait(control, "b", many("b", 2))
    assert [len(control.queue(limit=3).messages) for _ in range(2)] == [3, 1]


def test_parallelism_holds_over_all_pools_and_schedulers(control: Control) -> None:
    worker = control.worker()
    pool(control, "etl", 10)
    wait(control, "a", many("a", 5))
    wait(control, "b", many("b", 5), pool="etl")
    first = control.queue(parallelism=4).messages
    assert len(first) == 4
    other = control.do(rows.insert_scheduler)
    assert control.queue(parallelism=4, scheduler_id=other).messages == []
    finish_all(control, first[:3], worker)
    assert len(control.queue(parallelism=4, scheduler_id=other).messages) == 3


def test_with_parallelism_nothing_is_queued_while_another_scheduler_is_at_it(control: Control) -> None:
    control.worker()
    wait(control, "a", ["a"])
    with control.engine.begin() as other:
        assert queueing.enter_guard(other)
        queued = control.queue(parallelism=4)
        assert (list(queued.messages), queued.is_contended) == ([], True)
    assert names(control.queue(parallelism=4).messages) == ["a"]


@pytest.mark.parametrize(("counts", "free"), [(False, 4), (True, 1)])
def test_deferred_tasks_occupy_slots_where_the_pool_says_so(control: Control, *, counts: bool, free: int) -> None:
    control.worker()
    pool(control, "small", 4, include_deferred=counts)
    wait(control, "a", ["d1", "d2"], pool="small")
    wait(control, "b", ["d3"], pool={"default_pool": 1, "small": 1})
    defer(control)
    wait(control, "c", many("c", 9), pool="small")
    assert len(control.queue().messages) == free


def defer(control: Control) -> None:
    """Let everything that waits be deferred, as a worker does."""
    worker = control.worker(slots=50)
    for claimed in control.claim(control.queue().messages, worker):
        control.sql("UPDATE task_instance SET state = 'deferred' WHERE id = :id", id=claimed.task_instance_id)


class TestSeveralPools:
    """A task of several pools takes slots of all of them or of none."""

    def test_it_takes_slots_of_all_of_them(self, control: Control) -> None:
        control.worker()
        pool(control, "db", 4)
        pool(control, "api", 5)
        wait(control, "d", many("t", 2), pool={"db": 1, "api": 2})
        wait(control, "e", ["single", "too_many"], pool="api")
        queued = control.queue().messages
        assert names(queued) == ["t0000", "t0001", "single"]
        assert {message.celery_queue for message in queued[:2]} == {"db.default"}
        assert control.queue().messages == []

    def test_while_one_is_full_it_takes_none_and_keeps_the_slots_of_the_others(self, control: Control) -> None:
        worker = control.worker()
        pool(control, "db", 1)
        pool(control, "api", 1)
        wait(control, "holder", ["holds_api"], pool="api")
        first = control.queue().messages
        control.claim(first, worker)
        wait(control, "both", ["both"], pool={"db": 1, "api": 1}, priority_weight=5)
        wait(control, "low", ["low_db"], pool="db")
        wait(control, "low2", ["low_api"], pool="api")
        assert control.queue().messages == []
        control.finish([key_of(first[0])])
        assert names(control.queue().messages) == ["both"]

    def test_while_another_scheduler_has_one_it_waits_and_holds_up_nobody(self, control: Control) -> None:
        control.worker()
        pool(control, "db", 2)
        pool(control, "api", 2)
        wait(control, "both", ["both"], pool={"db": 1, "api": 1}, priority_weight=5)
        wait(control, "low", ["low_db"], pool="db")
        with control.engine.begin() as other:
            other.execute(text("SELECT 1 FROM pool WHERE name = 'api' FOR NO KEY UPDATE"))
            queued = control.queue()
            assert (names(queued.messages), queued.is_contended) == (["low_db"], True)
        assert names(control.queue().messages) == ["both"]

    @pytest.mark.parametrize("slots", [0, 1])
    def test_while_one_is_closed_or_too_small_it_holds_up_nobody(self, control: Control, slots: int) -> None:
        control.worker()
        pool(control, "db", 1)
        pool(control, "api", slots)
        wait(control, "both", ["both"], pool={"db": 1, "api": 2}, priority_weight=5)
        wait(control, "low", ["low_db"], pool="db")
        assert names(control.queue().messages) == ["low_db"]

    def test_while_the_first_of_them_is_full_it_keeps_nothing_of_the_others(self, control: Control) -> None:
        control.worker()
        pool(control, "db", 2)
        pool(control, "api", 1)
        wait(control, "big", ["big"], pool="db", pool_slots=2, priority_weight=9)
        wait(control, "both", ["both"], pool={"db": 1, "api": 1}, priority_weight=5)
        wait(control, "low", ["low_api"], pool="api")
        assert names(control.queue().messages) == ["big", "low_api"]

    def test_a_pool_that_is_missing_is_waited_for_without_haste(self, control: Control) -> None:
        control.worker()
        wait(control, "both", ["both"], pool={"default_pool": 1, "nowhere": 1})
        queued = control.queue()
        assert (list(queued.messages), queued.is_contended) == ([], False)
        pool(control, "nowhere", 1)
        assert names(control.queue().messages) == ["both"]


class TestRates:
    """A pool may have a rate: so many starts in any period."""

    def test_no_more_start_in_a_period_than_the_rate_says(self, control: Control) -> None:
        worker = control.worker()
        pool(control, "api", 50, rate=Rate(3, 3600))
        wait(control, "d", many("t", 10), pool="api")
        wait(control, "e", ["free"])
        first = control.queue()
        assert Counter(name[0] for name in names(first.messages)) == {"t": 3, "f": 1}
        finish_all(control, first.messages, worker)
        second = control.queue()
        assert list(second.messages) == []
        assert second.more_in_s is not None
        assert 0 < second.more_in_s <= 3600
        control.sql("UPDATE pool_start SET at = at - interval '50 minutes'")
        assert list(control.queue().messages) == []
        control.sql("UPDATE pool_start SET at = at - interval '20 minutes'")
        assert len(control.queue().messages) == 3
        assert control.sql("SELECT sum(starts) FROM pool_start") == [3]

    def test_it_counts_for_each_of_the_pools_of_a_task(self, control: Control) -> None:
        control.worker()
        pool(control, "db", 50)
        pool(control, "api", 50, rate=Rate(2, 60))
        wait(control, "d", many("t", 10), pool={"db": 1, "api": 1})
        wait(control, "e", ["free"], pool="db")
        assert names(control.queue().messages) == ["t0000", "t0001", "free"]

    def test_a_rate_can_be_kept_changed_and_taken_away(self, control: Control) -> None:
        for given, kept in (({"rate": Rate(2, 60)}, (2, 60.0)), ({}, (2, 60.0)), ({"rate": None}, (None, None))):
            pool(control, "api", 50, **given)
            assert control.sql("SELECT rate_starts, rate_period_s FROM pool WHERE name = 'api'") == [kept]


@pytest.mark.parametrize(("waits", "shortest"), [((0.0, 0.2), 0.0), ((None, 0.2), 0.2), ((None, None), None)])
def test_a_wait_that_is_over_at_this_moment_is_the_shortest(
    waits: tuple[float | None, float | None], shortest: float | None
) -> None:
    assert soonest(*waits) == shortest


class TestTooBig:
    """A task that needs more slots than its pool has is refused with an explanation."""

    def test_it_fails_with_the_remedy_and_its_run_goes_on(self, control: Control) -> None:
        pool(control, "small", 2)
        run = control.prepare(graph("d", {"huge": [], "after": ["huge"]}, task={"pool": "small", "pool_slots": 3}))
        assert len(control.do(stuck.refuse_oversized)) == 1
        assert control.sql("SELECT state, cause, error FROM task_instance WHERE task_id = 'huge'") == [
            (
                "failed",
                "pool_too_small",
                "It needs 3 slots of pool small, which has 2 in all: `turnout pools set small 3`, then clear it.",
            )
        ]
        control.decide()
        assert control.run_state(run) == "failed"

    def test_it_may_be_too_big_for_any_of_its_pools(self, control: Control) -> None:
        pool(control, "small", 2)
        wait(control, "d", ["t"], pool={"default_pool": 1, "small": 3})
        assert len(control.do(stuck.refuse_oversized)) == 1

    def test_for_a_pool_without_any_slot_it_waits(self, control: Control) -> None:
        control.worker()
        pool(control, "closed", 0)
        wait(control, "d", ["t"], pool="closed")
        assert control.do(stuck.refuse_oversized) == []
        assert list(control.queue().messages) == []
        pool(control, "closed", 1)
        assert names(control.queue().messages) == ["t"]


class TestOrder:
    """The order is exact, up to the worker."""

    def test_a_run_of_higher_priority_goes_before_all_weights(self, control: Control) -> None:
        control.worker(slots=1)
        wait(control, "heavy", ["heavy"], priority_weight=1000)
        control.declare(graph("urgent", {"urgent": []}))
        control.insert_run("urgent", priority=1)
        control.start()
        control.decide()
        assert names(control.queue().messages) == ["urgent"]

    def test_with_one_slot_and_five_hundred_waiting_an_urgent_task_starts_next(self, control: Control) -> None:
        worker = control.worker(slots=1)
        wait(control, "low", many("low", 500))
        running = control.queue().messages
        control.claim(running, worker)
        for _ in range(3):
            assert list(control.queue().messages) == []
        wait(control, "urgent", ["urgent"], priority_weight=2)
        assert list(control.queue().messages) == []
        control.finish([key_of(running[0])])
        assert names(control.queue().messages) == ["urgent"]

    def test_a_full_pool_of_urgent_tasks_delays_no_other_pool(self, control: Control) -> None:
        control.worker(slots=1000)
        pool(control, "one", 1)
        pool(control, "twenty", 20)
        wait(control, "urgent", many("u", 1000), pool="one", priority_weight=2)
        wait(control, "normal", many("n", 100), pool="twenty", priority_weight=1)
        assert Counter(name[0] for name in names(control.queue().messages)) == {"u": 1, "n": 20}


class TestSideBySide:
    """Several schedulers choose side by side while slots are plenty, and one after the other while they are scarce."""

    @pytest.fixture
    def other(self, control: Control) -> int:
        return control.do(rows.insert_scheduler)

    def wait_in_pools(self, control: Control, *names: str) -> None:
        for name in names:
            pool(control, name, 10)
            wait(control, name, [name], pool=name)

    def test_each_serves_some_of_the_pools(self, control: Control, other: int) -> None:
        control.worker(slots=100)
        self.wait_in_pools(control, "p1", "p2", "p3", "p4")
        with control.engine.begin() as first, control.engine.begin() as second:
            mine = queue_ready(first, control.scheduler_id, 500)
            theirs = queue_ready(second, other, 500)
            assert len(mine.messages) == len(theirs.messages) == 2
            assert {*names(mine.messages), *names(theirs.messages)} == {"p1", "p2", "p3", "p4"}
            assert not mine.is_contended
            assert mine.more_in_s == OTHERS_TURN_S

    def test_the_order_of_all_counts_when_slots_are_scarce(self, control: Control, other: int) -> None:
        control.worker(slots=1)
        self.wait_in_pools(control, "p1", "p2", "p3")
        control.sql("UPDATE task_instance SET priority_weight = 2 WHERE task_id = 'p3'")
        with control.engine.begin() as first, ThreadPoolExecutor(1) as thread:
            assert names(queue_ready(first, control.scheduler_id, 500).messages) == ["p3"]
            later = thread.submit(partial(control.queue, scheduler_id=other))
            waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            while not control.sql(waits)[0]:
                pass
            first.commit()
            assert list(later.result(60).messages) == []

    def test_one_that_stands_still_while_it_chooses_stops_nobody(self, control: Control, other: int) -> None:
        control.worker(slots=1)
        self.wait_in_pools(control, "p1", "p2")
        with control.engine.begin() as still:
            assert queueing.enter_guard(still)
            still.execute(text("SELECT 1 FROM pool WHERE name = 'p1' FOR NO KEY UPDATE"))
            assert names(control.queue(scheduler_id=other).messages) == ["p2"]

    def test_alone_it_takes_all_pools(self, control: Control) -> None:
        control.worker(slots=100)
        self.wait_in_pools(control, "p1", "p2", "p3")
        queued = control.queue()
        assert (len(queued.messages), queued.is_contended) == (3, False)


@pytest.mark.parametrize(("table", "column", "value"), [("dag_run", "run_id", "run"), ("dag", "dag_id", "one")])
def test_what_another_scheduler_has_locked_is_left_to_it_and_hides_nobody(
    control: Control, table: str, column: str, value: str
) -> None:
    control.worker(slots=1)
    wait(control, "one", ["t"], max_active_tis_per_dag=1, priority_weight=2)
    control.declare(graph("two", {"other": []}))
    control.insert_run("two", "other")
    control.start()
    control.decide()
    with control.engine.begin() as other:
        other.execute(text(f"SELECT 1 FROM {table} WHERE {column} = '{value}' FOR NO KEY UPDATE"))  # noqa: S608
        queued = control.queue()
        assert (names(queued.messages), queued.is_contended) == (["other"], True)
    control.sql("UPDATE process SET slots = 2 WHERE kind = 'worker'")
    assert names(control.queue().messages) == ["t"]


@pytest.mark.parametrize("parallelism", [None, 13])
def test_schedulers_at_the_same_time_exceed_no_limit_that_spans_pools(
    control: Control, engine: Engine, parallelism: int | None
) -> None:
    """Three of them queue side by side, or one after the other, and a fourth connection watches what is active."""
    limits = {"max_active_tasks": 5, "max_active_runs": 4}
    for name in ("p1", "p2", "p3"):
        pool(control, name, 6)
    worker = control.worker(slots=1000)
    control.declare(graph("d", {f"t{number:02}": [] for number in range(40)}, **limits))
    for number in range(4):
        control.insert_run("d", f"r{number}")
    control.start()
    control.sql("UPDATE task_instance SET pool = 'p' || 1 + id % 3, max_active_tis_per_dag = 2")
    control.sql("UPDATE task_instance SET extra_pools = '{\"default_pool\": 1}' WHERE id % 4 = 0")
    control.decide()
    done, most = threading.Event(), {"run": 0, "task": 0, "all": 0}

    def schedule(scheduler_id: int) -> None:
        while not done.is_set():
            control.work(transact(engine, lambda c: queue_ready(c, scheduler_id, 500, parallelism)).messages, worker)

    def watch() -> None:
        while not done.is_set():
            for what, grouping in (("run", "dag_run_id"), ("task", "task_id"), ("all", "1::int + 0")):
                seen = control.sql(
                    "SELECT COALESCE(max(n), 0) FROM (SELECT count(*) AS n FROM task_instance"  # noqa: S608
                    f" WHERE state IN ('queued', 'running') GROUP BY {grouping}) q"
                )[0]
                most[what] = max(most[what], seen)
            if not control.sql("SELECT 1 FROM task_instance WHERE state <> 'success' LIMIT 1"):
                done.set()

    schedulers = [control.do(rows.insert_scheduler) for _ in range(3)]
    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(schedule, scheduler_id) for scheduler_id in schedulers] + [threads.submit(watch)]
        for future in futures:
            future.result(120)
    assert 2 < most["run"] <= 5
    assert 1 <= most["task"] <= 2
    assert 5 < most["all"] <= (parallelism or 20)
    assert control.sql("SELECT count(*) FROM task_instance WHERE try_number = 1") == [160]
