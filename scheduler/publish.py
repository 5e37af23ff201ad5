"""Step 5, publish: send what was queued, after the commit, from a thread that nothing else waits for."""

import queue
import threading
from collections.abc import Sequence

import structlog

from turnout.config.outage import Ongoing, Outage
from turnout.metadata.messages import AttemptMessage, Broker, BrokerUnavailableError

log = structlog.get_logger(__name__)

STOP_TIMEOUT_S = 5.0


class Publisher:
    """Publishes batches in order, each until it has arrived.

    A batch may be published twice (the broker was lost on the way) or never (this process dies): a worker drops the
    second message, and the reaper of any scheduler returns what was never published.

    Args:
        broker: the broker; this thread is the only one that publishes through it.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._batches: queue.SimpleQueue[Sequence[AttemptMessage]] = queue.SimpleQueue()
        self._outage = Outage("broker")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    @property
    def broker_outage(self) -> Ongoing | None:
        """The outage of the broker, while a batch cannot be published."""
        return self._outage.ongoing

    def start(self) -> None:
        """Begin to publish."""
        self._thread.start()

    def stop(self) -> None:
        """Publish what is left, unless the broker is away, and end."""
        self._stopping.set()
        self._batches.put(())
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT_S)

    def submit(self, messages: Sequence[AttemptMessage]) -> None:
        """Take in a batch; it returns at once."""
        if messages:
            self._batches.put(messages)

    def _run(self) -> None:
        while True:
            batch = self._take()
            if batch:
                self._publish(batch)
            if self._stopping.is_set() and self._batches.empty():
                return

    def _take(self) -> list[AttemptMessage]:
        """Take all that has come in, as one batch."""
        batch = list(self._batches.get())
        while not self._batches.empty():
            batch += self._batches.get()
        return batch

    def _publish(self, batch: Sequence[AttemptMessage]) -> None:
        while True:
            try:
                self._broker.publish(batch)
            except BrokerUnavailableError as error:
                if self._stopping.wait(self._outage.note(error)):
                    log.warning("publish.given_up", count=len(batch))
                    return
            except Exception:  # a bug must cost this batch at most; the reaper returns it, and the log says why
                log.exception("publish.failed", count=len(batch))
                return
            else:
                self._outage.over()
                log.debug("attempts.published", count=len(batch))
                return
