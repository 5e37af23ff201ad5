"""The lease of a process of this room: renewed from a thread and a connection of its own."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import structlog

from turnout.config.outage import Outage
from turnout.metadata import processes
from turnout.metadata.engine import Connection, Engine, open_engine, transact
from turnout.metadata.errors import MetadataError, TermOverError
from turnout.metadata.processes import LoopReport

log = structlog.get_logger(__name__)

#: Two renewals may be lost before a lease expires.
RENEWALS_PER_LEASE = 3
STOP_TIMEOUT_S = 5.0

T = TypeVar("T")


class Lease:
    """Registers a process and keeps its lease; registers anew, under another id, when the lease was lost.

    Args:
        database_url: the metadata database.
        registration: what the process says of itself.
        report: what the process last did; written with each renewal.
    """

    def __init__(
        self,
        database_url: str,
        registration: processes.Registration,
        report: Callable[[], LoopReport | None] = lambda: None,
    ) -> None:
        self._engine = open_engine(database_url, name=f"{registration.name} lease")
        self._registration = registration
        self._report = report
        self._process_id: int | None = None
        self._steady_since = time.monotonic()
        self._renewed_at = time.time()
        self._outage = Outage("lease")
        self._is_stopping = False
        self._due = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def process_id(self) -> int:
        """The id of the current term."""
        assert self._process_id is not None, "start the lease first"  # noqa: S101  a mistake of ours
        return self._process_id

    @property
    def steady_s(self) -> float:
        """For how long this process has had the database without a break: it may judge others by their silence.

        Nothing while a renewal is overdue: the others may be waiting for the same database.
        """
        return 0.0 if self._is_overdue() else time.monotonic() - self._steady_since

    def start(self) -> None:
        """Register, then renew in the background.

        Raises:
            MetadataError: the process cannot register.
        """
        self._register()
        self._thread.start()

    def transact(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        """Run `work` in one transaction that counts only within the term in which it began.

        Raises:
            TermOverError: the term was over at the end of it, and nothing was written; the next one begins at once.
            MetadataError: as `engine.transact` says.
        """
        process_id = self.process_id

        def fenced(connection: Connection) -> T:
            result = work(connection)
            processes.fence(connection, process_id)
            return result

        try:
            return transact(engine, fenced)
        except TermOverError:
            self._due.set()
            raise

    def stop(self) -> None:
        """End the term; when the database is away, the lease will expire by itself."""
        self._is_stopping = True
        self._due.set()
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT_S)
        process_id, self._process_id = self._process_id, None
        if process_id is not None:
            try:
                transact(self._engine, lambda connection: processes.end(connection, process_id))
            except MetadataError as error:
                log.warning("lease.not_ended", error=str(error))
        self._engine.dispose()

    def _run(self) -> None:
        pause_s = self._registration.lease_s / RENEWALS_PER_LEASE
        wait_s = pause_s
        while True:
            self._due.wait(wait_s)
            self._due.clear()
            if self._is_stopping:
                return
            try:
                self.run_once()
            except MetadataError as error:
                self._steady_since = time.monotonic()
                wait_s = min(pause_s, self._outage.note(error))
            except Exception:  # a bug: without this thread the process would be given up for dead, and never know
                log.exception("lease.failed")
                wait_s = pause_s
            else:
                self._outage.over()
                wait_s = pause_s

    def run_once(self) -> None:
        """Renew the lease, or begin a new term when it is lost.

        Raises:
            MetadataError: the database is away.
        """
        if transact(self._engine, self._renew):
            if self._is_overdue():  # after a gap, others need time to renew as well
                self._steady_since = time.monotonic()
            self._renewed_at = time.time()
        else:
            log.warning("lease.lost", process_id=self._process_id)
            self._register()

    def _is_overdue(self) -> bool:
        # The wall clock goes on while a machine sleeps. Whoever renews in time has more than this much left of a lease.
        return time.time() - self._renewed_at > self._registration.lease_s * (1 - 1 / RENEWALS_PER_LEASE)

    def _renew(self, connection: Connection) -> bool:
        report = self._report()
        if report is not None:
            processes.report_loop(connection, self.process_id, report)
        return processes.renew(connection, self.process_id, self._registration.lease_s)

    def _register(self) -> None:
        self._process_id = transact(self._engine, lambda c: processes.register(c, self._registration))
        self._steady_since = time.monotonic()
        self._renewed_at = time.time()
        log.info("lease.began", process_id=self._process_id, name=self._registration.name)
