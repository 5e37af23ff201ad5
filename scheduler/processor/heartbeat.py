"""The DAG processor's lease, renewed from a thread and a connection of its own."""

import threading

import structlog

from turnout.metadata import processes
from turnout.metadata.engine import open_engine, transact
from turnout.metadata.errors import MetadataError
from turnout.scheduler.processor.outage import Outage

log = structlog.get_logger(__name__)

#: Two renewals may be lost before a lease expires.
RENEWALS_PER_LEASE = 3
STOP_TIMEOUT_S = 5.0


class Heartbeat:
    """Registers a process and keeps its lease; registers anew when the lease was lost.

    Args:
        database_url: the metadata database.
        registration: what the process says of itself.
    """

    def __init__(self, database_url: str, registration: processes.Registration) -> None:
        self._engine = open_engine(database_url, name=f"{registration.name} heartbeat")
        self._registration = registration
        self._process_id: int | None = None
        self._outage = Outage(log, "heartbeat.failed")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Register, then renew in the background.

        Raises:
            MetadataError: the process cannot register.
        """
        self._register()
        self._thread.start()

    def stop(self) -> None:
        """End the term; when the database is away, the lease will expire by itself."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT_S)
        process_id, self._process_id = self._process_id, None
        if process_id is not None:
            try:
                transact(self._engine, lambda connection: processes.end(connection, process_id))
            except MetadataError as error:
                log.warning("heartbeat.not_ended", error=str(error))
        self._engine.dispose()

    def _run(self) -> None:
        pause_s = self._registration.lease_s / RENEWALS_PER_LEASE
        wait_s = pause_s
        while not self._stopping.wait(wait_s):
            try:
                self._renew()
            except MetadataError as error:
                wait_s = min(pause_s, self._outage.pause_after(error))
            else:
                self._outage.is_over()
                wait_s = pause_s

    def _renew(self) -> None:
        process_id, lease_s = self._process_id, self._registration.lease_s
        if process_id is None or not transact(self._engine, lambda c: processes.renew(c, process_id, lease_s)):
            self._register()

    def _register(self) -> None:
        self._process_id = transact(self._engine, lambda c: processes.register(c, self._registration))
        log.info("process.registered", process_id=self._process_id, name=self._registration.name)
