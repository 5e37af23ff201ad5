"""Step 6, repair: the reaper puts back on their way what dead processes and lost messages left behind.

It judges by leases, never by time-outs of tasks: a process is dead when it let its lease expire while this scheduler
had the database without a break for a whole such lease, so that an outage of the database condemns nobody.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from turnout.config.outage import Outage
from turnout.config.settings import Settings
from turnout.metadata import attempts, orphans, processes, queueing, stuck, wakeups
from turnout.metadata.attempts import AttemptKey
from turnout.metadata.engine import Connection, Engine, transact
from turnout.metadata.errors import DatabaseUnavailableError
from turnout.metadata.messages import Broker, BrokerUnavailableError, celery_queue
from turnout.metadata.processes import ProcessKind
from turnout.metadata.states import Cause
from turnout.metadata.stuck import Unclaimed
from turnout.scheduler.capacity import Capacity
from turnout.scheduler.lease import Lease

log = structlog.get_logger(__name__)

#: How long the rows of dead processes stay for people to see.
KEEP_DEAD_S = 24 * 3600.0


@dataclass(frozen=True)
class Repaired:
    """What one pass of the reaper did: processes declared dead, attempts put back on their way or refused."""

    dead: int = 0
    attempts: int = 0


@dataclass(frozen=True)
class _Reaped:
    """What one transaction found; told of after its commit, since a deadlock makes it run again."""

    dead: Sequence[tuple[int, ProcessKind, str]]
    lost: Sequence[AttemptKey]
    unpublished: Sequence[AttemptKey]

    def log(self) -> None:
        for process_id, kind, name in self.dead:
            log.warning("process.dead", process_id=process_id, kind=kind, name=name)
        _report("attempt.worker_lost", self.lost)
        _report("attempt.scheduler_lost", self.unpublished)


class Reaper:
    """The reaper of one scheduler; the others have theirs, and the first one there does the work.

    Args:
        engine: the metadata database.
        broker: asked how deep its queues are.
        lease: this scheduler's own; it says how long this scheduler has been in a position to judge.
        settings: leases, limits and intervals.
    """

    def __init__(self, engine: Engine, broker: Broker, lease: Lease, settings: Settings) -> None:
        self._engine = engine
        self._broker = broker
        self._lease = lease
        self._settings = settings.scheduler
        self._lease_s: dict[ProcessKind, float] = {
            "scheduler": settings.scheduler.lease_s,
            "dag_processor": settings.scheduler.lease_s,
            "worker": settings.worker.lease_s,
        }
        self._outage = Outage("broker depth")
        self._next_repair = 0.0
        self._next_sweep = time.monotonic() + self._settings.sweep_interval_s

    @property
    def due_in_s(self) -> float:
        """The time until the next pass is due, in seconds."""
        return max(0.0, self._next_repair - time.monotonic())

    def run_if_due(self) -> Repaired:
        """Run once when the timer says so."""
        return Repaired() if self.due_in_s else self.run_once()

    def run_once(self) -> Repaired:
        """Repair what needs it.

        Raises:
            TermOverError: the lease of this scheduler is over; what was under way is undone.
            MetadataError: the database cannot be used.
        """
        self._next_repair = time.monotonic() + self._settings.repair_interval_s
        self._sweep_if_due()
        reaped = self._lease.transact(self._engine, self._reap)
        reaped.log()
        refused = self._lease.transact(self._engine, stuck.refuse_oversized)
        if refused:
            log.warning("tasks.refused", cause=Cause.POOL_TOO_SMALL, count=len(refused), task_instances=refused[:10])
        lost = self._return_lost_messages()
        return Repaired(len(reaped.dead), len(reaped.lost) + len(reaped.unpublished) + len(refused) + lost)

    def _sweep_if_due(self) -> None:
        if time.monotonic() < self._next_sweep:
            return
        self._next_sweep = time.monotonic() + self._settings.sweep_interval_s
        removed, missing = self._lease.transact(self._engine, self._sweep)
        for dag_id, task_id in removed:
            log.warning("task.removed", dag_id=dag_id, task_id=task_id)
        for pool, waiting in missing.items():
            log.warning("pool.missing", pool=pool, waiting=waiting, remedy=f"turnout pools set {pool} SLOTS")

    def _sweep(self, connection: Connection) -> tuple[list[tuple[str, str]], dict[str, int]]:
        removed = orphans.remove_orphans(connection)
        wakeups.leave_for_active_runs(connection)
        wakeups.discard_orphans(connection)
        processes.forget_old(connection, KEEP_DEAD_S)
        return removed, stuck.count_waiting_for_missing_pools(connection)

    def _reap(self, connection: Connection) -> "_Reaped":
        kinds = self._judged()
        dead = processes.declare_dead(connection, sorted(kinds))
        if not kinds <= self._judged():  # the statement met a database that stood still, and saw leases that ran out so
            raise DatabaseUnavailableError("The metadata database stood still for a while: nobody is declared dead.")
        lost = attempts.lose_by_dead_workers(connection, self._settings.max_infra_retries)
        return _Reaped(dead, lost, attempts.give_back_by_dead_schedulers(connection))

    def _judged(self) -> set[ProcessKind]:
        """Say which kinds of processes had a whole lease to renew while this scheduler had the database."""
        steady_s = self._lease.steady_s
        return {kind for kind, lease_s in self._lease_s.items() if steady_s > lease_s}

    def _return_lost_messages(self) -> int:
        """Return attempts that wait for a message which the broker no longer has, or for workers that have gone.

        The broker is asked between two transactions. An attempt that is claimed, or whose message arrives, meanwhile is
        none the worse: the compare-and-set decides, and a message without its attempt is dropped.
        """
        waiting = transact(self._engine, lambda c: stuck.unclaimed(c, self._settings.message_patience_s))
        if not any(attempt.is_late for attempt in waiting):
            return 0
        capacity = Capacity(transact(self._engine, queueing.live_workers), ())
        stranded = [late for late in waiting if late.is_late and not capacity.is_served(late.pool, late.queue)]
        missing = self._missing(waiting)
        returned = self._give_back(stranded, Cause.NO_WORKER)
        return returned + self._give_back(missing, Cause.MESSAGE_LOST)

    def _missing(self, waiting: Sequence[Unclaimed]) -> list[Unclaimed]:
        """Find the attempts that are late while their queue holds fewer messages than attempts wait for one."""
        by_queue: dict[str, list[Unclaimed]] = defaultdict(list)
        for attempt in waiting:
            by_queue[celery_queue(attempt.pool, attempt.queue)].append(attempt)
        try:
            depths = self._broker.depths(list(by_queue))
        except BrokerUnavailableError as error:
            self._outage.note(error)
            return []
        self._outage.over()
        missing = []
        for name, queued in by_queue.items():
            late = [attempt for attempt in queued if attempt.is_late]
            missing += late[: max(0, len(queued) - depths[name])]
        return missing

    def _give_back(self, late: Sequence[Unclaimed], cause: Cause) -> int:
        if not late:
            return 0
        keys = [AttemptKey(attempt.task_instance_id, attempt.attempt_id) for attempt in late]
        returned = self._lease.transact(self._engine, lambda c: attempts.give_back_queued(c, keys, cause))
        _report(f"attempt.{cause}", returned)
        return len(returned)


def _report(event: str, keys: Sequence[AttemptKey]) -> None:
    if keys:
        log.warning(event, count=len(keys), attempt_ids=[str(key.attempt_id) for key in keys[:10]])
