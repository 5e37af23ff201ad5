"""Step 4, queue: the critical section, which chooses among the waiting task instances those that are queued now.

Schedulers choose side by side, each for some of the pools, for as long as the workers have slots for all that waits.
When slots are scarce, the order of all that waits counts, and they choose one after the other.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from turnout.metadata import queueing, rates
from turnout.metadata.engine import Connection
from turnout.metadata.messages import AttemptMessage
from turnout.metadata.queueing import Candidate, Excluded, Waiting
from turnout.scheduler.capacity import Capacity
from turnout.scheduler.guard import TOGETHER, Each
from turnout.scheduler.limits import Limits

#: How soon a scheduler looks after pools that it left to others.
OTHERS_TURN_S = 0.2


@dataclass(frozen=True)
class Queued:
    """What one pass through the critical section did.

    Attributes:
        messages: to be published once the transaction is committed.
        is_contended: another scheduler held what has work, or something that was chosen was not queued; look again
            soon.
        more_in_s: when more may be queued without anybody saying so: the rate of a pool was used up, or pools were left
            to other schedulers, which may have died.
    """

    messages: Sequence[AttemptMessage] = ()
    is_contended: bool = False
    more_in_s: float | None = None


def queue_ready(
    connection: Connection, scheduler_id: int, limit: int, parallelism: int | None = None, each: Each = TOGETHER
) -> Queued:
    """Queue the task instances that no limit stops and that a worker can start soon, in order of priority.

    Args:
        connection: the transaction; what it locks stays locked until its end.
        scheduler_id: the term of this scheduler; nothing is queued when it is over.
        limit: most task instances to queue.
        parallelism: how many attempts may be queued and running in all; None for any number.
        each: how to deal with the task instances; one by one when one of them makes trouble.
    """
    waiting = queueing.count_waiting(connection)
    if not waiting.counts:
        return Queued()
    is_shared = waiting.schedulers > 1 and parallelism is None and _is_plenty(connection, waiting)
    if waiting.schedulers > 1 or parallelism is not None:
        has_turn = is_shared or queueing.enter_guard(connection)
        if parallelism is not None and not has_turn:  # other limits have rows of their own, which are locked below
            return Queued(is_contended=True)
    pools = queueing.lock_pools_with_work(connection, waiting.schedulers if is_shared else 1)
    if not pools.locked:
        return Queued(is_contended=pools.is_contended)
    active = queueing.count_active(connection)
    rate_room = rates.read_rate_room(connection, pools.locked)
    capacity = Capacity(queueing.live_workers(connection), active)
    limits = Limits(pools, active, capacity, rate_room, parallelism, left_alone=each.left_alone.named(_ID))
    choose(limits, limit, _Locking(connection))
    parts = each(limits.chosen, lambda some: _queue(connection, scheduler_id, some), _words)
    messages = [message for part in parts for message in part]
    rates.note_starts(connection, limits.starts)
    more_in_s = soonest(limits.more_in_s, OTHERS_TURN_S if pools.elsewhere else None)
    is_contended = limits.is_contended or pools.is_contended or len(messages) < len(limits.chosen)
    return Queued(messages, is_contended, more_in_s)


#: What a task instance that is left alone is known by.
_ID = "task_instance_id"


def _words(candidate: Candidate) -> dict[str, str]:
    return {"dag_id": candidate.dag_id, "task_id": candidate.task_id, _ID: str(candidate.id)}


def _queue(connection: Connection, scheduler_id: int, candidates: Sequence[Candidate]) -> list[AttemptMessage]:
    return queueing.queue_scheduled(connection, scheduler_id, [candidate.id for candidate in candidates])


def soonest(*waits_s: float | None) -> float | None:
    """Return the shortest of some waits, which may be over already (0); None stands for no wait."""
    return min((wait_s for wait_s in waits_s if wait_s is not None), default=None)


class _Locking:
    """Reads what it has locked until the end of the transaction, as whoever queues must."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def candidates(self, wanted: Sequence[tuple[str, str, int]], excluded: Excluded) -> list[Candidate]:
        return queueing.read_candidates(self._connection, wanted, excluded)

    def runs(self, runs: Collection[int]) -> dict[int, int]:
        return queueing.lock_runs(self._connection, runs)

    def dags(self, dag_ids: Collection[str]) -> set[str]:
        return queueing.lock_dags(self._connection, dag_ids)

    def tasks(self, tasks: Collection[tuple[str, str]]) -> dict[tuple[int, str, str], int]:
        return queueing.count_active_of_tasks(self._connection, tasks)


def _is_plenty(connection: Connection, waiting: Waiting) -> bool:
    """Tell whether the workers have slots for all that waits."""
    if waiting.is_cut:
        return False
    capacity = Capacity(queueing.live_workers(connection), queueing.count_active(connection))
    return all(capacity.take(pool, queue, count) for (pool, queue), count in waiting.counts.items())


class Reader(Protocol):
    """What a choice is made from."""

    def candidates(self, wanted: Sequence[tuple[str, str, int]], excluded: Excluded) -> list[Candidate]:
        """Read the first candidates of each (pool, queue, most)."""

    def runs(self, runs: Collection[int]) -> dict[int, int]:
        """Count what is active in runs; those that somebody else holds are left out."""

    def dags(self, dag_ids: Collection[str]) -> set[str]:
        """Say which DAGs nobody else holds."""

    def tasks(self, tasks: Collection[tuple[str, str]]) -> dict[tuple[int, str, str], int]:
        """Count the active instances of tasks, by run."""


def choose(limits: Limits, limit: int, reader: Reader) -> None:
    """Offer candidates until nothing more can be queued; another page only follows where a limit stopped some."""
    while wanted := limits.wanted(limit):
        page = reader.candidates(wanted, limits.excluded)
        runs = limits.unknown_runs(page)
        limits.learn_runs(runs, reader.runs(runs))
        if tasks := limits.unknown_tasks(page):
            dags = reader.dags({dag_id for dag_id, _ in tasks})
            limits.learn_tasks(tasks, dags, reader.tasks(tasks))
        found = Counter(candidate.line for candidate in page)
        cut = {(pool, queue) for pool, queue, most in wanted if found[pool, queue] == most}
        _offer(limits, limit, page, cut)
        if not cut:
            return


def _offer(limits: Limits, limit: int, page: Sequence[Candidate], cut: Collection[tuple[str, str]]) -> None:
    """Offer the candidates of a page, up to where others may come before the rest of them.

    These wait behind the last one of a line that the page has cut, if more of that line can be used.
    """
    last = {candidate.line: candidate for candidate in page if candidate.line in cut}
    for candidate in page:
        limits.offer(candidate)
        if len(limits.chosen) == limit:
            return
        if candidate is last.get(candidate.line) and candidate.line in {want[:2] for want in limits.wanted(limit)}:
            return
