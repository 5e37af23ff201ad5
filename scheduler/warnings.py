"""Warnings to workers whose leases are about to be over: sent over the broker, from a thread that nobody waits for."""

from collections.abc import Sequence
from threading import Thread

import structlog

from turnout.config.outage import Outage
from turnout.metadata.messages import Broker, BrokerUnavailableError, OverdueWorker

log = structlog.get_logger(__name__)


class Warnings:
    """Sends them.

    Args:
        broker: reaches the workers.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._thread: Thread | None = None
        self._outage = Outage("broker warnings")

    def send(self, workers: Sequence[OverdueWorker]) -> None:
        """Warn workers soon, unless the broker still keeps the last warning waiting."""
        if workers and not (self._thread is not None and self._thread.is_alive()):
            self._thread = Thread(target=self._send, args=(workers,), name="warnings", daemon=True)
            self._thread.start()

    def _send(self, workers: Sequence[OverdueWorker]) -> None:
        try:
            self._broker.warn(workers)
        except BrokerUnavailableError as error:
            self._outage.note(error)
        else:
            self._outage.over()
            log.warning("workers.overdue", names=[worker.name for worker in workers])
