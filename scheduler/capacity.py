"""Late binding: how much the live workers can start soon.

A worker's budget is its free slots, plus what it is likely to finish while a message is on its way. What is queued and
not yet claimed is taken off first. So a queue at the broker never holds much more than its workers can start, the rest
waits in the database, where its order is exact, and a queue without a live worker gets nothing.
"""

from collections.abc import Iterable, Sequence

from turnout.metadata.queueing import ActiveCount, LiveWorker

#: Half a second of completions bridges the way of a message: decision, commit, publishing and claim (design, §4).
LOOKAHEAD_S = 0.5


class _Crew:
    """Workers that serve the same queues of the same pools."""

    def __init__(self, queues: frozenset[str], pools: frozenset[str] | None) -> None:
        self.queues = queues
        self._pools = pools
        self.budget = 0

    def serves(self, pool: str, queue: str) -> bool:
        return queue in self.queues and (self._pools is None or pool in self._pools)

    @property
    def breadth(self) -> tuple[bool, int, int]:
        """How choosy it is: specialists are given work before those who could do something else."""
        return self._pools is None, len(self._pools or ()), len(self.queues)


class Capacity:
    """What is left of the budgets of the live workers.

    Args:
        workers: the live workers.
        active: what is queued and running.
    """

    def __init__(self, workers: Iterable[LiveWorker], active: Sequence[ActiveCount]) -> None:
        crews: dict[tuple[frozenset[str], frozenset[str] | None], _Crew] = {}
        busy: dict[int | None, int] = {}
        for count in active:
            busy[count.worker_id] = busy.get(count.worker_id, 0) + count.attempts
        for worker in workers:
            crew = crews.setdefault((worker.queues, worker.pools), _Crew(worker.queues, worker.pools))
            soon = int(worker.finished_per_s * LOOKAHEAD_S)
            crew.budget += max(0, worker.slots + soon - busy.get(worker.id, 0))
        self._crews = sorted(crews.values(), key=lambda crew: crew.breadth)
        for count in active:
            if count.worker_id is None and count.queue is not None:
                self.take(count.pool, count.queue, count.attempts)

    @property
    def queues(self) -> list[str]:
        """The names of the queues that live workers serve."""
        return sorted({queue for crew in self._crews for queue in crew.queues})

    def of(self, pool: str, queue: str) -> int:
        """Say how many attempts of a pool and a queue name could start soon."""
        return sum(crew.budget for crew in self._serving(pool, queue))

    def take(self, pool: str, queue: str, attempts: int = 1) -> bool:
        """Use up budget; false when there was not enough (then all that there was is used)."""
        for crew in self._serving(pool, queue):
            used = min(crew.budget, attempts)
            crew.budget -= used
            attempts -= used
        return attempts == 0

    def is_served(self, pool: str, queue: str) -> bool:
        """Whether any live worker serves a pool and a queue name."""
        return bool(self._serving(pool, queue))

    def _serving(self, pool: str, queue: str) -> list[_Crew]:
        return [crew for crew in self._crews if crew.serves(pool, queue)]
