"""The dry pass: what stops one waiting task instance, found by the critical section's own choice, without a lock.

The choice is made again and again. Each time it does not fall on the task instance, what stopped it when its turn came
is noted and taken for lifted, until it is chosen. So the notes are what would have to change for it to be queued by
the next pass, no more and no less.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from turnout.metadata import queueing, rates
from turnout.metadata.engine import Connection
from turnout.metadata.listings.task_facts import TaskFacts
from turnout.metadata.queueing import Candidate, Excluded, Lifted, LiveWorker, LockedPool, LockedPools
from turnout.scheduler.capacity import Capacity
from turnout.scheduler.limits import Limits, Obstacle, Stop
from turnout.scheduler.queue import choose

#: More than any limit or any number of task instances.
_ANY_NUMBER = 10**9
#: Which kinds are looked at first when the turn of the task instance never came: the others may only be stopped by
#: what stands behind it.
_INNER_FIRST: Sequence[frozenset[Stop]] = (
    frozenset({Stop.NO_POOL, Stop.SLOTS, Stop.KEPT, Stop.RATE}),
    frozenset({Stop.RUN, Stop.TASK, Stop.TASK_IN_RUN}),
    frozenset({Stop.WORKERS, Stop.PARALLELISM}),
)


@dataclass(frozen=True)
class Stopped:
    """Something that stops the task instance."""

    obstacle: Obstacle
    is_used_up: bool  # at this moment already; else those before it in the line will use it up


@dataclass
class _Lift:
    """What is taken for lifted so far."""

    stops: set[tuple[Stop, str | None]] = field(default_factory=set)

    def has(self, stop: Stop) -> bool:
        return (stop, None) in self.stops

    def pools(self, *stops: Stop) -> set[str]:
        return {pool for stop, pool in self.stops if stop in stops and pool is not None}


class DryPass:
    """Makes the choice as if some limits were lifted.

    Args:
        connection: where to read; nothing is locked or changed.
        task: the task instance that waits; its DAG is taken as not paused.
        parallelism: the most attempts that may be active in all.
        limit: the most task instances that one pass queues.
    """

    def __init__(self, connection: Connection, task: TaskFacts, parallelism: int | None, limit: int) -> None:
        self._connection = connection
        self._candidate = _candidate(task)
        self._parallelism = parallelism
        self._limit = limit
        self.pools = queueing.read_pools(connection)
        self.active = queueing.count_active(connection)
        self.workers = queueing.live_workers(connection)
        self.rates = rates.read_rate_room(connection, self.pools)

    def stopped_by(self, but: Collection[str] = ()) -> list[Stopped]:
        """Name everything that stops it; nothing if the next pass will queue it. Some pools count as large enough."""
        lift, found = _Lift({(Stop.SLOTS, pool) for pool in but}), list[Stopped]()
        while more := [stopped for stopped in self._next(lift) if _key(stopped.obstacle) not in lift.stops]:
            found += more
            lift.stops |= {_key(stopped.obstacle) for stopped in more}
        return found

    def _next(self, lift: _Lift) -> list[Stopped]:
        limits = self._limits(lift)
        reader = _Reader(self._connection, self._candidate, lift)
        candidate = reader.lift(self._candidate)
        _learn(limits, reader, candidate)
        if now := list(limits.obstacles(candidate)):
            return [Stopped(obstacle, is_used_up=True) for obstacle in now]
        choose(limits, self._limit, reader)
        if any(chosen.id == candidate.id for chosen in limits.chosen):
            return []
        met = limits.met if limits.met is not None else _innermost(limits.obstacles(candidate), candidate.pool)
        return [Stopped(obstacle, is_used_up=False) for obstacle in met]

    def _limits(self, lift: _Lift) -> "_Watched":
        free = lift.pools(Stop.SLOTS, Stop.KEPT, Stop.NO_POOL)
        unrated = lift.pools(Stop.RATE)
        known = [pool for pool in self.pools if pool.name not in free]
        return _Watched(
            self._candidate.id,
            LockedPools([*known, *(LockedPool(name, _ANY_NUMBER) for name in sorted(free))]),
            self.active,
            Capacity([*self.workers, *self._helper(lift)], self.active),
            {pool: room for pool, room in self.rates.items() if pool not in unrated},
            None if lift.has(Stop.PARALLELISM) else self._parallelism,
        )

    def _helper(self, lift: _Lift) -> Iterator[LiveWorker]:
        if lift.has(Stop.WORKERS):
            queues, pools = frozenset({self._candidate.queue}), frozenset({self._candidate.pool})
            yield LiveWorker(id=-1, queues=queues, pools=pools, slots=_ANY_NUMBER, finished_per_s=0)


class _Watched(Limits):
    """Limits that note what one candidate meets when its turn comes."""

    def __init__(self, watched: int, *limits: object) -> None:
        super().__init__(*limits)  # type: ignore[arg-type]
        self._watched = watched
        self.met: list[Obstacle] | None = None

    def offer(self, candidate: Candidate) -> None:
        if candidate.id == self._watched:
            self.met = list(self.obstacles(candidate))
        super().offer(candidate)


class _Reader:
    """Reads without a lock, as if some limits were lifted."""

    def __init__(self, connection: Connection, watched: Candidate, lift: _Lift) -> None:
        self._connection = connection
        self._watched = watched
        self._lift = lift
        self._lifted = Lifted(watched.dag_id, sorted(lift.pools(Stop.SLOTS, Stop.KEPT, Stop.NO_POOL)))

    def candidates(self, wanted: Sequence[tuple[str, str, int]], excluded: Excluded) -> list[Candidate]:
        return list(map(self.lift, queueing.read_candidates(self._connection, wanted, excluded, self._lifted)))

    def runs(self, runs: Collection[int]) -> dict[int, int]:
        return queueing.count_active_of_runs(self._connection, runs) if runs else {}

    def dags(self, dag_ids: Collection[str]) -> set[str]:
        return set(dag_ids)

    def tasks(self, tasks: Collection[tuple[str, str]]) -> dict[tuple[int, str, str], int]:
        return queueing.count_active_of_tasks(self._connection, tasks)

    def lift(self, candidate: Candidate) -> Candidate:
        """Take the limits that are lifted off a candidate that is under the same ones."""
        watched = self._watched
        if candidate.dag_id == watched.dag_id and self._lift.has(Stop.RUN):
            candidate = replace(candidate, max_active_tasks=_ANY_NUMBER)
        if (candidate.dag_id, candidate.task_id) == (watched.dag_id, watched.task_id):
            if self._lift.has(Stop.TASK):
                candidate = replace(candidate, max_active_tis_per_dag=None)
            if self._lift.has(Stop.TASK_IN_RUN):
                candidate = replace(candidate, max_active_tis_per_dagrun=None)
        return candidate


def _learn(limits: Limits, reader: _Reader, candidate: Candidate) -> None:
    runs = {candidate.dag_run_id}
    limits.learn_runs(runs, reader.runs(runs))
    if tasks := limits.unknown_tasks([candidate]):
        limits.learn_tasks(tasks, {candidate.dag_id}, reader.tasks(tasks))


def _innermost(obstacles: Iterator[Obstacle], pool: str) -> list[Obstacle]:
    found = list(obstacles)
    if of_its_line := [obstacle for obstacle in found if obstacle.pool == pool]:
        return of_its_line
    kinds = next((kind for kind in _INNER_FIRST if any(obstacle.stop in kind for obstacle in found)), frozenset())
    return [obstacle for obstacle in found if obstacle.stop in kinds]


def _key(obstacle: Obstacle) -> tuple[Stop, str | None]:
    return obstacle.stop, obstacle.pool


def _candidate(task: TaskFacts) -> Candidate:
    return Candidate(
        id=task.id,
        dag_run_id=task.dag_run_id,
        dag_id=task.dag_id,
        task_id=task.task_id,
        pool=task.pool,
        queue=task.queue,
        pools=task.pools,
        max_active_tasks=task.max_active_tasks,
        max_active_tis_per_dag=task.max_active_tis_per_dag,
        max_active_tis_per_dagrun=task.max_active_tis_per_dagrun,
    )
