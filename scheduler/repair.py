"""Step 6, repair: the reaper puts back on their way what dead processes and lost messages left behind.

It judges by leases, never by time-outs of tasks: a process is dead when it let its lease expire while this scheduler
had the database without a break for a whole such lease, so that an outage of the database condemns nobody.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from turnout.config.outage import Ongoing
from turnout.config.settings import Settings
from turnout.metadata import attempts, orphans, processes, queueing, stuck, wakeups
from turnout.metadata.attempts import AttemptKey
from turnout.metadata.engine import Connection, Engine, transact
from turnout.metadata.errors import DatabaseUnavailableError
from turnout.metadata.messages import Broker, LostAttempt, OverdueWorker
from turnout.metadata.processes import ProcessKind
from turnout.metadata.states import Cause
from turnout.metadata.stuck import Unclaimed
from turnout.scheduler.capacity import Capacity
from turnout.scheduler.lease import Lease
from turnout.scheduler.lost_messages import LostMessages
from turnout.scheduler.warnings import Warnings

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
    lost: Sequence[LostAttempt]
    unpublished: Sequence[AttemptKey]
    overdue: Sequence[OverdueWorker]

    def log(self) -> None:
        for process_id, kind, name in self.dead:
            log.warning("process.dead", process_id=process_id, kind=kind, name=name)
        _report("attempt.worker_lost", self.lost)
        _report("attempt.scheduler_lost", self.unpublished)


class Reaper:
    """The reaper of one scheduler; the others have theirs, and the first one there does the work.

    Args:
        engine: the metadata database.
        broker: asked how deep its queues are, and told whose workers have died.
        lease: this scheduler's own; it says how long this scheduler has been in a position to judge.
        settings: leases, limits and intervals.
    """

    def __init__(self, engine: Engine, broker: Broker, lease: Lease, settings: Settings) -> None:
        self._engine = engine
        self._broker = broker
        self._lost_messages = LostMessages(broker)
        self._warnings = Warnings(broker)
        self._lease = lease
        self._settings = settings.scheduler
        self._lease_s: dict[ProcessKind, float] = {
            "scheduler": settings.scheduler.lease_s,
            "dag_processor": settings.scheduler.lease_s,
            "worker": settings.worker.lease_s,
        }
        self._warn_within_s = settings.warning_s
        self._next_repair = 0.0
        self._next_sweep = time.monotonic() + self._settings.sweep_interval_s

    @property
    def broker_outage(self) -> Ongoing | None:
        """The outage of the broker, if it could not be asked at the last pass."""
        return self._lost_messages.ongoing

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
        self._warnings.send(reaped.overdue)
        self._broker.tell_lost(reaped.lost)
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
        return _Reaped(dead, lost, attempts.give_back_by_dead_schedulers(connection), self._overdue(connection))

    def _overdue(self, connection: Connection) -> Sequence[OverdueWorker]:
        """Find workers that may be cut off from the database: they have been silent while this scheduler had it.

        They are told over the broker, so that they end their attempts before others begin them.
        """
        if self._lease.steady_s < self._lease_s["worker"] - self._warn_within_s:
            return ()
        return processes.overdue_workers(connection, self._warn_within_s)

    def _judged(self) -> set[ProcessKind]:
        """Say which kinds of processes had a whole lease to renew while this scheduler had the database."""
        steady_s = self._lease.steady_s
        return {kind for kind, lease_s in self._lease_s.items() if steady_s > lease_s}

    def _return_lost_messages(self) -> int:
        """Return attempts that wait for a message which the broker no longer has, or for workers that have gone.

        The broker is asked between two transactions.
        """
        waiting = transact(self._engine, lambda c: stuck.unclaimed(c, self._settings.message_patience_s))
        late = [attempt for attempt in waiting if attempt.is_late]
        capacity = Capacity(transact(self._engine, queueing.live_workers), ()) if late else None
        stranded = [one for one in late if capacity and not capacity.is_served(one.pool, one.queue)]
        missing = self._lost_messages.find(waiting)
        returned = self._give_back(stranded, Cause.NO_WORKER)
        return returned + self._give_back(missing, Cause.MESSAGE_LOST)

    def _give_back(self, late: Sequence[Unclaimed], cause: Cause) -> int:
        if not late:
            return 0
        keys = [AttemptKey(attempt.task_instance_id, attempt.attempt_id) for attempt in late]
        returned = self._lease.transact(self._engine, lambda c: attempts.give_back_queued(c, keys, cause))
        _report(f"attempt.{cause}", returned)
        return len(returned)


def _report(event: str, keys: Sequence[AttemptKey | LostAttempt]) -> None:
    if keys:
        log.warning(event, count=len(keys), attempt_ids=[str(key.attempt_id) for key in keys[:10]])
