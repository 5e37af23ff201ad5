"""Step 4, queue: the critical section, which chooses among the waiting task instances those that are queued now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from turnout.metadata import queueing
from turnout.metadata.engine import Connection
from turnout.metadata.messages import AttemptMessage
from turnout.metadata.queueing import ActiveCount, Candidate, LiveWorker, LockedPool
from turnout.scheduler.capacity import Capacity


@dataclass(frozen=True)
class Queued:
    """What one pass through the critical section did.

    Attributes:
        messages: to be published once the transaction is committed.
        is_contended: another scheduler held a pool that has work; look again soon.
    """

    messages: Sequence[AttemptMessage] = ()
    is_contended: bool = False


def queue_ready(connection: Connection, scheduler_id: int, limit: int) -> Queued:
    """Queue the task instances that have a pool slot and a worker that can start them soon, in order of priority.

    Args:
        connection: the transaction; the rows of the pools stay locked until its end.
        scheduler_id: the term of this scheduler; nothing is queued when it is over.
        limit: most task instances to queue.
    """
    pools = queueing.lock_pools_with_work(connection)
    is_contended = len(pools) < queueing.count_pools_with_work(connection)
    if not pools:
        return Queued(is_contended=is_contended)
    active = queueing.count_active(connection)
    workers = queueing.live_workers(connection)
    free = free_slots(pools, active)
    capacity = Capacity(workers, active)
    candidates = queueing.read_candidates(connection, _limits(free, workers, capacity, limit))
    chosen = choose(candidates, free, capacity)
    messages = queueing.queue_scheduled(connection, scheduler_id, [candidate.id for candidate in chosen[:limit]])
    return Queued(messages, is_contended)


def free_slots(pools: Iterable[LockedPool], active: Iterable[ActiveCount]) -> dict[str, int]:
    """Count the free slots of each pool; below zero when the pool was made smaller than its use."""
    free = {pool.name: pool.slots for pool in pools}
    for count in active:
        if count.pool in free:
            free[count.pool] -= count.pool_slots
    return free


def choose(candidates: Iterable[Candidate], free: dict[str, int], capacity: Capacity) -> list[Candidate]:
    """Choose who goes, in the order given.

    The first that does not fit into the free slots of its pool ends the choice for that pool, so that a stream of
    small tasks never starves a big one. One that waits for a worker holds up nobody.
    """
    free = dict(free)
    full: set[str] = set()
    chosen = []
    for candidate in candidates:
        pool = candidate.pool
        if pool in full:
            continue
        if candidate.pool_slots > free[pool]:
            full.add(pool)
        elif capacity.take(pool, candidate.queue):
            free[pool] -= candidate.pool_slots
            chosen.append(candidate)
    return chosen


def _limits(
    free: dict[str, int], workers: Iterable[LiveWorker], capacity: Capacity, limit: int
) -> list[tuple[str, str, int]]:
    """Say how many candidates of each pool and queue name can be used at most."""
    queues = {queue for worker in workers for queue in worker.queues}
    wanted = [
        (pool, queue, min(slots, capacity.of(pool, queue), limit)) for pool, slots in free.items() for queue in queues
    ]
    return [(pool, queue, most) for pool, queue, most in sorted(wanted) if most > 0]
