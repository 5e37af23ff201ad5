"""The heartbeat: keeps the worker's lease, reports its load, and compares what it holds with what the database says."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import structlog

from turnout.config.outage import Outage
from turnout.executor import ending
from turnout.executor.roster import HeldAttempt, Roster
from turnout.executor.service import Service
from turnout.executor.stopping import Stopper
from turnout.executor.term import Term
from turnout.metadata import attempts, callbacks, processes, routing, wakeups
from turnout.metadata.attempts import AttemptKey, FinishedAttempt
from turnout.metadata.engine import Connection, Engine, transact
from turnout.metadata.errors import MetadataError
from turnout.metadata.pools import pool_names
from turnout.metadata.processes import Registration, WorkerLoad
from turnout.metadata.states import Cause, Outcome, TaskState

log = structlog.get_logger(__name__)

#: Time between two beats of a worker that has work: how soon a cancelled attempt is noticed.
_BUSY_INTERVAL_S = 1.0
#: An idle worker renews its lease so many times before it would expire.
_BEATS_PER_LEASE = 5


@dataclass(frozen=True)
class Beat:
    """What one beat found in the database."""

    is_alive: bool
    running: set[AttemptKey]
    pools: Sequence[str]
    closed_for: str | None = None  # why the worker takes nothing new
    callbacks_wait: bool = False


class Heartbeat(Service):
    """The thread of the lease.

    Args:
        registration: what the worker says of itself.
        warning_s: how long before the end of its lease it acts upon a warning.
        engine: the metadata database.
        term: told the id of each new term.
        roster: the attempts held.
        stopper: ends attempts that are no longer ours.
        on_pools: told, from this thread, the names of all pools at each beat.
        on_door: told, from this thread, why the worker takes nothing new, or None, when that has changed.
        on_callbacks: told, from this thread, that callbacks wait, if the worker runs any.
        measure: measures the load, and says whether it is too high.
    """

    def __init__(
        self,
        *,
        registration: Registration,
        warning_s: float,
        engine: Engine,
        term: Term,
        roster: Roster,
        stopper: Stopper,
        on_pools: Callable[[Sequence[str]], None],
        on_door: Callable[[str | None], None],
        on_callbacks: Callable[[], None],
        measure: Callable[[], WorkerLoad],
    ) -> None:
        super().__init__("heartbeat")
        self._registration = registration
        self._overdue_s = registration.lease_s - warning_s
        self._engine = engine
        self._term = term
        self._roster = roster
        self._stopper = stopper
        self._on_pools = on_pools
        self._on_door = on_door
        self._on_callbacks = on_callbacks
        self._measure = measure
        self._is_open: bool | None = None  # not known before the first beat
        self._strays: set[AttemptKey] = set()
        self._outage = Outage("database")
        self._is_registered = False
        self._renewed_at = time.monotonic()

    def run(self) -> None:
        """Beat until stopped."""
        while not self._stopping.is_set():
            try:
                self.run_once()
            except MetadataError as error:
                pause_s = min(self._outage.note(error), self._interval_s)
            else:
                self._outage.over()
                pause_s = self._interval_s
            self._stopping.wait(pause_s)

    def run_once(self) -> None:
        """Register, or renew the lease and reconcile.

        Raises:
            MetadataError: the database is away.
        """
        if not self._is_registered:
            self._register()
        held = self._roster.running()
        load = self._measure()
        beat = transact(self._engine, lambda c: self._beat(c, load))
        self._renewed_at = time.monotonic()
        if not beat.is_alive:
            self._lose_term(held)
            return
        self._on_pools(beat.pools)
        self._mind_door(beat.closed_for)
        if beat.callbacks_wait:
            self._on_callbacks()
        self._give_up_lost(held, beat.running)
        self._finish_strays(beat.running)

    def take_warning(self, worker_ids: Collection[int]) -> None:
        """End all attempts, if this is about the current term and it has indeed not been renewed for that long.

        Whoever warns has the database, so it is this worker that is cut off from it: when its lease is over, others
        begin the attempts anew.
        """
        silent_s = time.monotonic() - self._renewed_at
        running = [attempt for attempt in self._roster.running() if attempt.stopped_for is None]
        if self._term.worker_id not in worker_ids or silent_s < self._overdue_s or not running:
            return
        log.error("worker.cut_off", silent_s=round(silent_s, 1), running=len(running))
        for attempt in running:
            self._stopper.stop_attempt(attempt, Cause.WORKER_LOST)

    def end_term(self) -> None:
        """End the term of one's own free will; a database that is away will see it expire instead."""
        if self._is_registered:
            try:
                transact(self._engine, lambda c: processes.end(c, self._term.worker_id))
            except MetadataError as error:
                log.warning("worker.lease_not_ended", error=str(error))

    @property
    def _interval_s(self) -> float:
        idle_s = self._registration.lease_s / _BEATS_PER_LEASE
        return min(_BUSY_INTERVAL_S, idle_s) if len(self._roster) else idle_s

    def _register(self) -> None:
        worker_id = transact(self._engine, lambda c: _register(c, self._registration))
        self._is_registered = True
        self._term.begin(worker_id)
        log.info("worker.registered", worker_id=worker_id, name=self._registration.name)

    def _beat(self, connection: Connection, load: WorkerLoad) -> Beat:
        worker_id, actor = self._term.worker_id, routing.drained_by(connection, self._registration.name)
        closed_for = f"drained by {actor}" if actor else load.closed_for
        load = replace(load, closed_for=closed_for)
        if not processes.renew(connection, worker_id, self._registration.lease_s, load):
            return Beat(is_alive=False, running=set(), pools=())
        if (closed_for is None) != self._is_open:
            wakeups.notify_schedulers(connection)
        return Beat(
            is_alive=True,
            running=attempts.running_on(connection, worker_id),
            pools=pool_names(connection),
            closed_for=closed_for,
            callbacks_wait=self._registration.runs_callbacks and callbacks.are_waiting(connection),
        )

    def _mind_door(self, closed_for: str | None) -> None:
        """Take nothing new while there is a reason for it."""
        is_open = closed_for is None
        if is_open != self._is_open:
            self._on_door(closed_for)
        self._is_open = is_open

    def _lose_term(self, held: Sequence[HeldAttempt]) -> None:
        """Stop everything of a term that is over: others have been given its attempts. Then begin anew."""
        log.warning("worker.lease_lost", worker_id=self._term.worker_id, running=len(held))
        for attempt in held:
            self._disown(attempt)
        self._strays = set()
        self._register()

    def _give_up_lost(self, held: Sequence[HeldAttempt], running: set[AttemptKey]) -> None:
        """Stop attempts that were ours before the database was read, and are not any more."""
        for attempt in held:
            if attempt.key not in running and not attempt.has_ended and not attempt.is_disowned:
                log.warning("attempt.disowned", attempt_id=str(attempt.claimed.attempt_id))
                self._disown(attempt)

    def _disown(self, attempt: HeldAttempt) -> None:
        attempt.is_disowned = True
        self._stopper.stop_attempt(attempt, Cause.WORKER_STOPPED)

    def _finish_strays(self, running: set[AttemptKey]) -> None:
        """End attempts that only the database believes to run here, at two beats in a row: an ambiguous commit."""
        unknown = {key for key in running if not self._roster.knows(key)}
        confirmed, self._strays = unknown & self._strays, unknown
        if confirmed:
            log.warning("attempt.stray", attempt_ids=[str(key.attempt_id) for key in confirmed])
            transact(self._engine, lambda c: _lose(c, confirmed))


def _register(connection: Connection, registration: Registration) -> int:
    worker_id = processes.register(connection, registration)
    wakeups.notify_schedulers(connection)
    return worker_id


def _lose(connection: Connection, keys: set[AttemptKey]) -> None:
    found = ending.of_confusion()
    lost = [FinishedAttempt(key, TaskState.SCHEDULED, Outcome.LOST, found.cause, found.error) for key in keys]
    attempts.finish_if_running(connection, lost)
    wakeups.notify_schedulers(connection)
