"""Celery's events, sent from a thread of their own: nobody's work waits for what only people watch."""

import queue
import threading
from typing import Any

import structlog
from celery.events.dispatcher import EventDispatcher
from kombu import Producer

log = structlog.get_logger(__name__)

#: Events that wait for a broker that hangs; what is more is dropped.
_MOST_WAITING = 1000
_CLOSE_S = 1.0


class BackgroundDispatcher(EventDispatcher):  # type: ignore[misc]  # celery has no types
    """A dispatcher that never waits for the broker.

    Celery's own publishes from the event loop, and the worker's heartbeat among the events is tried again until it
    arrives: with a broker that hangs, no result would be read and nothing that runs could end.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._waiting: queue.Queue[tuple[Any, str] | None] = queue.Queue(_MOST_WAITING)
        self._thread: threading.Thread | None = None
        super().__init__(*args, **kwargs | {"buffer_while_offline": False})

    def close(self) -> None:
        """Send what is left, unless the broker keeps that waiting, and end."""
        super().close()
        if self._thread is not None:
            if self._waiting.full():
                self._waiting.get()
            self._put(None)
            self._thread.join(_CLOSE_S)

    def open_producer(self) -> Any:
        """Open a connection for this thread: the loop reads Celery's own for events, and two readers block both."""
        connection = self.app.connection_for_write()
        return Producer(connection, exchange=self.exchange, serializer=self.serializer, auto_declare=False)

    def _publish(self, event: Any, producer: Any, routing_key: str, **_kwargs: Any) -> None:
        if producer is None:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_all, name="events", daemon=True)
            self._thread.start()
        self._put((event, routing_key))

    def _put(self, item: tuple[Any, str] | None) -> None:
        try:
            self._waiting.put_nowait(item)
        except queue.Full:
            log.debug("event.dropped")

    def _send_all(self) -> None:
        producer = self.open_producer()
        while (item := self._waiting.get()) is not None:
            event, routing_key = item
            try:
                super()._publish(event, producer, routing_key, retry=True, retry_policy={"max_retries": 1})
            except Exception as error:  # noqa: BLE001  whatever it is, only Flower misses this event
                log.debug("event.lost", error=str(error))
