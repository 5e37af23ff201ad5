"""The limits that stop a waiting task instance, told with their numbers and who holds them."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

from turnout.config.settings import SchedulerSettings
from turnout.metadata.engine import Connection
from turnout.metadata.listings import holders
from turnout.metadata.listings.explanations import Line, Reason, Why
from turnout.metadata.listings.holders import Holders
from turnout.metadata.listings.platform_facts import live_worker_facts, read_pool_facts
from turnout.metadata.listings.spoken import counted, duration, listed
from turnout.metadata.listings.task_facts import TaskFacts, read_keeper
from turnout.metadata.messages import celery_queue
from turnout.scheduler.explaining.dry_pass import DryPass, Stopped
from turnout.scheduler.explaining.pools import pool_missing
from turnout.scheduler.explaining.surroundings import no_worker_reason, paused_queue_reasons
from turnout.scheduler.limits import Stop


def limit_reasons(
    connection: Connection, task: TaskFacts, line: Line, settings: SchedulerSettings, but: Collection[str]
) -> list[Reason]:
    """Name the limits that stop a waiting task instance, its workers' slots among them.

    Args:
        connection: where to read.
        task: the task instance; its DAG is taken as not paused.
        line: its place in the line.
        settings: those of the schedulers.
        but: pools that are too small for it, which is said elsewhere.
    """
    dry = DryPass(connection, task, settings.parallelism, settings.batch_size)
    teller = _Teller(connection, task, line, dry, settings.parallelism)
    paused = paused_queue_reasons(connection, task.queue)
    told = [teller.tell(stopped) for stopped in dry.stopped_by(but)]
    # A paused queue has no slots for it, whoever serves that queue.
    return [*paused, *(reason for reason in told if not (paused and reason.reason is Why.WORKERS_BUSY))]


class _Teller:
    def __init__(
        self, connection: Connection, task: TaskFacts, line: Line, dry: DryPass, parallelism: int | None
    ) -> None:
        self._connection = connection
        self._task = task
        self._line = line
        self._dry = dry
        self._parallelism = parallelism or 0

    def tell(self, stopped: Stopped) -> Reason:
        """Say what an obstacle is."""
        pool = stopped.obstacle.pool or ""
        match stopped.obstacle.stop:
            case Stop.NO_POOL:
                return pool_missing(pool, self._task.pools[pool], [known.name for known in self._dry.pools])
            case Stop.SLOTS:
                return self._slots(pool, stopped)
            case Stop.KEPT:
                return self._kept(pool, stopped.obstacle.keeper or 0)
            case Stop.RATE:
                return self._rate(pool, stopped)
            case Stop.WORKERS:
                return self._workers(stopped)
            case counted_limit:
                return self._count(counted_limit, stopped)

    def _slots(self, pool: str, stopped: Stopped) -> Reason:
        facts, users = read_pool_facts(self._connection, pool), holders.holders_of_pool(self._connection, pool)
        slots, needed = facts.slots if facts else 0, self._task.pools[pool]
        if not stopped.is_used_up:
            message = (
                f"The free slots of pool {pool} ({max(0, slots - users.slots)} of {slots}) go to {self._before()}."
            )
        elif slots == 0:
            message = f"Pool {pool} has no slots."
        elif users.slots >= slots:
            message = f"Pool {pool} is full: {users.slots} of {slots} slots are used{_by(users)}."
        else:
            message = (
                f"Pool {pool} has {slots - users.slots} of {slots} slots free, and the task needs {needed}; "
                f"the others are used{_by(users, ' by')}."
            )
        remedy = f"{'Wait, or give it more slots' if slots else 'Give it some'}: turnout pools set {pool} N"
        return self._held(Reason(Why.POOL_FULL, message, remedy, pool, limit=slots, needed=needed), stopped, users)

    def _kept(self, pool: str, keeper: int) -> Reason:
        name, needed = read_keeper(self._connection, keeper, pool)
        facts, users = read_pool_facts(self._connection, pool), holders.holders_of_pool(self._connection, pool)
        slots = facts.slots if facts else 0
        return Reason(
            Why.POOL_RESERVED,
            f"The free slots of pool {pool} ({max(0, slots - users.slots)} of {slots}) are kept for {name}, which "
            f"needs {needed} and stands before it in line.",
            f"Wait, or give it more slots: turnout pools set {pool} N",
            pool,
            limit=slots,
            used=users.slots,
            needed=self._task.pools[pool],
            who=[name],
            who_count=1,
        )

    def _rate(self, pool: str, stopped: Stopped) -> Reason:
        facts, room = read_pool_facts(self._connection, pool), self._dry.rates[pool]
        starts, period_s = (facts.rate_starts or 0, facts.rate_period_s or 0) if facts else (0, 0)
        used = starts - room.starts
        message = f"Pool {pool} may start {starts} in {period_s:g} s: {used} started"
        message += "." if stopped.is_used_up else f", and the rest goes to {self._before()}."
        until = self._task.now + timedelta(seconds=room.more_in_s) if used else None
        return Reason(
            Why.POOL_RATE,
            message,
            f"Wait{f' {duration(room.more_in_s)}' if used else ''}, or raise the rate of the pool.",
            pool,
            limit=starts,
            used=used,
            needed=1,
            until=until,
        )

    def _workers(self, stopped: Stopped) -> Reason:
        pool, queue = self._task.pool, self._task.queue
        everyone = live_worker_facts(self._connection)
        serving = [worker for worker in everyone if worker.serves(pool, queue)]
        if not serving:
            return no_worker_reason(everyone, pool, queue)
        slots, running = sum(worker.slots for worker in serving), sum(worker.running for worker in serving)
        coming = sum(
            count.attempts
            for count in self._dry.active
            if count.worker_id is None
            and count.queue is not None
            and any(worker.serves(count.pool, count.queue) for worker in serving)
        )
        who = f"{counted(len(serving), 'live worker')} of queue {queue} ({listed([worker.name for worker in serving])})"
        if stopped.is_used_up:
            message = (
                f"{who} with no free slot: of {slots} slots, {running} run tasks and {coming} wait for their claim."
            )
        else:
            message = (
                f"The free slots of the {who} ({max(0, slots - running - coming)} of {slots}) go to {self._before()}."
            )
        return Reason(
            Why.WORKERS_BUSY,
            message,
            f"Wait, or start another: turnout worker --queues {queue}",
            celery_queue(pool, queue),
            limit=slots,
            used=running + coming,
            needed=1,
            who=[worker.name for worker in serving[:3]],
            who_count=len(serving),
        )

    def _count(self, stop: Stop, stopped: Stopped) -> Reason:
        """Say what a limit is that counts active task instances."""
        task, connection = self._task, self._connection
        if stop is Stop.RUN:
            of, limit, users = (
                "tasks of its run",
                task.max_active_tasks,
                holders.holders_of_run(connection, task.dag_run_id),
            )
        elif stop is Stop.TASK:
            of, limit = f"instances of {task.task_id} in all runs", task.max_active_tis_per_dag or 0
            users = holders.holders_of_task(connection, task.dag_id, task.task_id)
        elif stop is Stop.TASK_IN_RUN:
            of, limit = f"instances of {task.task_id} in its run", task.max_active_tis_per_dagrun or 0
            users = holders.holders_of_task_in_run(connection, task.dag_run_id, task.task_id)
        else:
            of, limit, users = "attempts in all", self._parallelism, holders.holders_of_all(connection)
        message = f"{users.count} of at most {limit} {of} are active ({stop}){_by(users, ':')}"
        message += "." if stopped.is_used_up else f"; the rest goes to {self._before()}."
        place = (
            "TURNOUT_SCHEDULER__PARALLELISM" if stop is Stop.PARALLELISM else f"{stop} in the file of DAG {task.dag_id}"
        )
        reason = Reason(Why(stop), message, f"Wait, or raise {place}.", task.dag_id, limit=limit, needed=1)
        return self._held(reason, stopped, users)

    def _held(self, reason: Reason, stopped: Stopped, users: Holders) -> Reason:
        if stopped.is_used_up:
            return replace(reason, used=users.slots, who=users.names, who_count=users.count)
        return replace(reason, used=users.slots, who=self._line.first, who_count=self._line.before)

    def _before(self) -> str:
        if not self._line.before:
            return "what stands before it"
        return f"what stands before it in line ({listed(self._line.first, self._line.before)})"


def _by(users: Holders, link: str = ", by") -> str:
    return f"{link} {listed(users.names, users.count)}" if users.names else ""
