"""The limits of one pass through the critical section: how much of each is left, and who may go."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from turnout.metadata.queueing import ActiveCount, Candidate, Excluded, LockedPool, LockedPools
from turnout.metadata.rates import RateRoom
from turnout.scheduler.capacity import Capacity


class Stop(StrEnum):
    """What can stop a candidate."""

    RUN = "max_active_tasks"
    TASK = "max_active_tis_per_dag"
    TASK_IN_RUN = "max_active_tis_per_dagrun"
    PARALLELISM = "parallelism"
    NO_POOL = "pool_missing"
    SLOTS = "pool_full"
    KEPT = "pool_reserved"
    RATE = "pool_rate"
    WORKERS = "workers_busy"


@dataclass(frozen=True)
class Obstacle:
    """One thing that stops a candidate at this moment."""

    stop: Stop
    pool: str | None = None
    keeper: int | None = None  # the task instance for which the slots of the pool are kept


class Limits:
    """What is left of every limit; candidates are offered in the order in which they may start.

    The first that does not fit into its pools keeps what it needs there, and nobody behind it gets that: so a stream of
    small tasks never starves a big one. One that another limit stops (its run, its task, no worker) holds up nobody,
    nor does one that a pool is too small for, or closed, or that has several pools and finds the first of them full.

    Args:
        pools: the pools that this transaction has locked, and those that others have.
        active: what occupies slots.
        capacity: what the workers can start soon.
        rates: what the rates of the pools leave.
        parallelism: how many attempts may be active in all; None for any number.
        left_alone: the ids of candidates that are not to be offered.
    """

    def __init__(
        self,
        pools: LockedPools,
        active: Sequence[ActiveCount],
        capacity: Capacity,
        rates: Mapping[str, RateRoom],
        parallelism: int | None,
        *,
        left_alone: Iterable[str] = (),
    ) -> None:
        self.chosen: list[Candidate] = []
        self.is_contended = False
        self._sizes = {pool.name: pool.slots for pool in pools.locked}
        self._free = free_slots(pools.locked, active)
        self._elsewhere = pools.elsewhere
        self._kept: dict[str, int] = {}
        self._rates = rates
        self._starts = {pool: room.starts for pool, room in rates.items()}
        self._capacity = capacity
        self._room = None if parallelism is None else parallelism - sum(count.attempts for count in active)
        self._in_run: Counter[int] = Counter()
        self._of_task: Counter[tuple[str, str]] = Counter()
        self._of_task_in_run: Counter[tuple[int, str]] = Counter()
        self._runs_out: set[int] = set()
        self._tasks_out: set[tuple[str, str]] = set()
        self._run_tasks_out: set[tuple[int, str]] = set()
        self._seen = {int(id_) for id_ in left_alone}

    def wanted(self, limit: int) -> list[tuple[str, str, int]]:
        """Say how many more candidates of each pool and queue name can be used at most, when `limit` can in all."""
        left = limit - len(self.chosen)
        if self._room is not None:
            left = min(left, self._room)
        most = {pool: min(free, self._starts.get(pool, free), left) for pool, free in self._free.items()}
        wanted = (
            (pool, queue, min(most[pool], self._capacity.of(pool, queue)))
            for pool in sorted(most)
            for queue in self._capacity.queues
        )
        return [(pool, queue, count) for pool, queue, count in wanted if count > 0]

    @property
    def excluded(self) -> Excluded:
        """What need not be offered any more."""
        return Excluded(self._runs_out, self._tasks_out, self._run_tasks_out, self._seen)

    @property
    def starts(self) -> dict[str, int]:
        """The starts that were chosen in pools that have a rate."""
        chosen = Counter(pool for candidate in self.chosen for pool in candidate.pools)
        return {pool: count for pool, count in chosen.items() if pool in self._rates}

    @property
    def more_in_s(self) -> float | None:
        """When the rate of a pool will let more start; None when none is used up."""
        return min((self._rates[pool].more_in_s for pool, left in self._starts.items() if left <= 0), default=None)

    def unknown_runs(self, candidates: Iterable[Candidate]) -> set[int]:
        """Name the runs of candidates that `learn_runs` has not heard of."""
        return {candidate.dag_run_id for candidate in candidates} - self._in_run.keys() - self._runs_out

    def learn_runs(self, asked: Iterable[int], active: Mapping[int, int]) -> None:
        """Take in how many task instances are active in each run that could be locked; the others are left alone."""
        self._in_run.update(active)
        others = set(asked) - active.keys()
        self._runs_out |= others
        self.is_contended |= bool(others)

    def unknown_tasks(self, candidates: Iterable[Candidate]) -> set[tuple[str, str]]:
        """Name the tasks of candidates that have limits of their own and that `learn_tasks` has not heard of."""
        limited = {
            (candidate.dag_id, candidate.task_id)
            for candidate in candidates
            if candidate.max_active_tis_per_dag or candidate.max_active_tis_per_dagrun
        }
        return limited - self._of_task.keys() - self._tasks_out

    def learn_tasks(
        self, asked: Iterable[tuple[str, str]], dags: Iterable[str], active: Mapping[tuple[int, str, str], int]
    ) -> None:
        """Take in how many instances of tasks are active, by run; those of DAGs that are not locked are left alone."""
        locked = set(dags)
        for dag_id, task_id in asked:
            self._of_task[dag_id, task_id] += 0
            if dag_id not in locked:
                self._tasks_out.add((dag_id, task_id))
                self.is_contended = True
        for (run, dag_id, task_id), count in active.items():
            self._of_task[dag_id, task_id] += count
            self._of_task_in_run[run, task_id] += count

    def offer(self, candidate: Candidate) -> None:
        """Choose a candidate, if every limit allows it."""
        self._seen.add(candidate.id)
        obstacles = list(self.obstacles(candidate))
        if not obstacles:
            self._take(candidate)
        elif all(obstacle.stop is Stop.SLOTS for obstacle in obstacles):
            if self._may_keep(candidate):
                self._keep(candidate, obstacles)
        else:
            self._leave_out(candidate, obstacles)

    def obstacles(self, candidate: Candidate) -> Iterator[Obstacle]:
        """Name all that stops a candidate at this moment; what is known of its run and its task must be learnt."""
        yield from self._obstacles_around(candidate)
        for pool, slots in candidate.pools.items():
            if pool not in self._free:
                yield Obstacle(Stop.NO_POOL, pool)
            elif pool in self._kept:
                yield Obstacle(Stop.KEPT, pool, keeper=self._kept[pool])
            elif self._free[pool] < slots:
                yield Obstacle(Stop.SLOTS, pool)
            if self._starts.get(pool, 1) <= 0:
                yield Obstacle(Stop.RATE, pool)
        if not self._capacity.of(candidate.pool, candidate.queue):
            yield Obstacle(Stop.WORKERS)

    def _obstacles_around(self, candidate: Candidate) -> Iterator[Obstacle]:
        run, task = candidate.dag_run_id, (candidate.dag_id, candidate.task_id)
        if run in self._runs_out or self._in_run[run] >= candidate.max_active_tasks:
            yield Obstacle(Stop.RUN)
        if candidate.max_active_tis_per_dag is not None and (
            task in self._tasks_out or self._of_task[task] >= candidate.max_active_tis_per_dag
        ):
            yield Obstacle(Stop.TASK)
        if _is_reached(self._of_task_in_run[run, candidate.task_id], candidate.max_active_tis_per_dagrun):
            yield Obstacle(Stop.TASK_IN_RUN)
        if self._room is not None and self._room <= 0:
            yield Obstacle(Stop.PARALLELISM)

    def _may_keep(self, candidate: Candidate) -> bool:
        fits = all(slots <= self._sizes[pool] for pool, slots in candidate.pools.items())
        return fits and self._free[candidate.pool] > 0

    def _keep(self, candidate: Candidate, lacking: Iterable[Obstacle]) -> None:
        for pool, slots in candidate.pools.items():
            self._free[pool] -= slots
        self._kept |= {obstacle.pool: candidate.id for obstacle in lacking if obstacle.pool is not None}

    def _leave_out(self, candidate: Candidate, obstacles: Iterable[Obstacle]) -> None:
        """Note what makes it needless to offer others like it."""
        run, task_id = candidate.dag_run_id, candidate.task_id
        for obstacle in obstacles:
            match obstacle.stop:
                case Stop.RUN:
                    self._runs_out.add(run)
                case Stop.TASK:
                    self._tasks_out.add((candidate.dag_id, task_id))
                case Stop.TASK_IN_RUN:
                    self._run_tasks_out.add((run, task_id))
                case Stop.NO_POOL:  # missing, or another scheduler's at this moment
                    self.is_contended |= obstacle.pool in self._elsewhere

    def _take(self, candidate: Candidate) -> None:
        for pool, slots in candidate.pools.items():
            self._free[pool] -= slots
        self._capacity.take(candidate.pool, candidate.queue)
        for pool in candidate.pools.keys() & self._starts.keys():
            self._starts[pool] -= 1
        if self._room is not None:
            self._room -= 1
        self._in_run[candidate.dag_run_id] += 1
        self._of_task[candidate.dag_id, candidate.task_id] += 1
        self._of_task_in_run[candidate.dag_run_id, candidate.task_id] += 1
        self.chosen.append(candidate)


def free_slots(pools: Iterable[LockedPool], active: Iterable[ActiveCount]) -> dict[str, int]:
    """Count the free slots of each pool; below zero when the pool was made smaller than its use."""
    free = {pool.name: pool.slots for pool in pools}
    for count in active:
        if count.pool in free:
            free[count.pool] -= count.pool_slots
    return free


def _is_reached(active: int, limit: int | None) -> bool:
    return limit is not None and active >= limit
