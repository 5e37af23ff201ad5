"""Late binding: a queue is offered what its live workers can start soon, and no more."""

from turnout.metadata.queueing import ActiveCount, LiveWorker
from turnout.scheduler.capacity import Capacity

POOL, QUEUE = "default_pool", "default"


def worker(
    id_: int, slots: int, *queues: str, pools: frozenset[str] | None = None, finished_per_s: float = 0
) -> LiveWorker:
    return LiveWorker(id_, frozenset(queues or (QUEUE,)), pools, slots, finished_per_s)


def queued(attempts: int, pool: str = POOL, queue: str = QUEUE) -> ActiveCount:
    return ActiveCount(pool, queue, None, attempts, attempts)


def running(worker_id: int, attempts: int) -> ActiveCount:
    return ActiveCount(POOL, QUEUE, worker_id, attempts, attempts)


def test_free_slots_are_offered_once() -> None:
    capacity = Capacity([worker(1, 2), worker(2, 1)], [])
    assert capacity.of(POOL, QUEUE) == 3
    assert [capacity.take(POOL, QUEUE) for _ in range(4)] == [True, True, True, False]


def test_what_runs_and_what_is_on_its_way_is_taken_off() -> None:
    assert Capacity([worker(1, 4), worker(2, 4)], [running(1, 3), queued(2)]).of(POOL, QUEUE) == 3


def test_an_overfull_worker_takes_nothing_from_the_others() -> None:
    assert Capacity([worker(1, 2), worker(2, 2)], [running(1, 5)]).of(POOL, QUEUE) == 2


def test_what_is_likely_to_end_within_half_a_second_is_offered_too() -> None:
    assert Capacity([worker(1, 4, finished_per_s=10)], [running(1, 4)]).of(POOL, QUEUE) == 5


def test_a_queue_that_no_worker_serves_is_offered_nothing() -> None:
    capacity = Capacity([worker(1, 4, "gpu", pools=frozenset({"etl"}))], [queued(3)])
    assert not capacity.is_served(POOL, "gpu")
    assert not capacity.is_served("etl", QUEUE)
    assert capacity.is_served("etl", "gpu")
    assert (capacity.of(POOL, "gpu"), capacity.of("etl", "gpu")) == (0, 4)


def test_work_that_a_specialist_can_do_is_left_to_it() -> None:
    capacity = Capacity([worker(1, 2, QUEUE, "gpu"), worker(2, 2, "gpu")], [])
    assert [capacity.take(POOL, "gpu") for _ in range(2)] == [True, True]
    assert capacity.of(POOL, QUEUE) == 2


def test_what_waits_for_workers_that_are_gone_uses_up_nothing() -> None:
    assert Capacity([worker(1, 2)], [queued(9, queue="gpu"), running(99, 9)]).of(POOL, QUEUE) == 2
