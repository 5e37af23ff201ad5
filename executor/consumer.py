"""Celery's consumer, for a worker whose work does not hang on the broker.

Once claimed, an attempt is protected by its lease in the database. Losing the broker therefore changes nothing for what
this worker holds: it goes on running, its results are read, and requests that have arrived are still claimed. Celery's
own consumer would forget jobs that no child has accepted yet, and would stop looking at its pool until the broker is
back.
"""

import time
from typing import Any, ClassVar

import structlog
from celery.worker.consumer import Consumer
from celery.worker.state import maybe_shutdown
from kombu import Connection, Queue

from turnout.config.outage import Outage

log = structlog.get_logger(__name__)

#: How long an event may wait for others; people watch Flower, and its own page refreshes more slowly.
_EVENT_DELAY_S = 0.25


class AttemptConsumer(Consumer):  # type: ignore[misc]  # celery has no types
    """A consumer that keeps the event loop turning while it has no broker."""

    class Blueprint(Consumer.Blueprint):  # type: ignore[misc]
        """Celery's steps but one: nothing here is delayed by the broker."""

        default_steps: ClassVar = [step for step in Consumer.Blueprint.default_steps if "delayed_delivery" not in step]

    connection: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._outage = Outage("broker")
        self._flush_at = 0.0
        self._is_closed = True  # until the first heartbeat
        self._is_full = False
        super().__init__(*args, **kwargs)

    def on_ready(self) -> None:
        """Go on to consume with a new connection, unless the worker takes nothing new."""
        super().on_ready()
        self._consume()

    def set_closed(self, *, closed: bool) -> None:
        """Take no more messages from the broker; or take them again."""
        self._is_closed = closed
        self._consume()

    def set_full(self, *, full: bool) -> None:
        """Leave messages to workers that could start them; or take them again."""
        self._is_full = full
        self._consume()

    def _consume(self) -> None:
        if self.task_consumer is not None:
            if self._is_closed or self._is_full:
                self.task_consumer.cancel()
            else:
                self.task_consumer.consume()

    def serve(self, queue: Queue) -> None:
        """Consume one more queue."""
        self.app.amqp.queues.select_add(queue)
        if self.task_consumer is not None:  # else the next connection will consume it
            self.task_consumer.add_queue(queue)
            self._consume()

    def leave(self, name: str) -> None:
        """Consume a queue no longer."""
        self.app.amqp.queues.deselect(name)
        if self.task_consumer is not None:
            self.task_consumer.cancel_by_queue(name)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Let go of a broken connection."""
        self._outage.note(exc)
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.collect(socket_timeout=1)

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        """Take note that the broker cannot be reached."""
        self._outage.note(exc)

    def on_close(self) -> None:
        """Keep everything: requests that have arrived, claimed attempts, and jobs on their way to a child."""

    def ensure_connected(self, conn: Connection) -> Connection:
        """Connect, however long it takes."""
        while True:
            try:
                conn.connect()
                # Redis connects lazily: only a command tells whether the server answers.
                conn.default_channel  # noqa: B018
            except (*conn.recoverable_connection_errors, *conn.recoverable_channel_errors) as error:
                conn.collect(socket_timeout=1)
                self._turn_for(self._outage.note(error))
            else:
                self._outage.over()
                self.first_connection_attempt = False
                return conn

    def on_send_event_buffered(self) -> None:
        """Send events a few at a time: one message to the broker for each would cost more than the task itself."""
        now = time.monotonic()
        if now >= self._flush_at:
            self._flush_at = now + _EVENT_DELAY_S
            self.hub.call_later(_EVENT_DELAY_S, self.flush_events)

    def flush_events(self) -> None:
        """Send the events that are waiting."""
        if self.event_dispatcher is not None:
            self.event_dispatcher.flush()

    def _turn_for(self, seconds: float) -> None:
        """Run the event loop for a while: children report, jobs start, and other threads' calls are made."""
        self.controller.pool.register_with_event_loop(self.hub)
        end = time.monotonic() + seconds
        # The timer bounds the loop's own wait; without it, it would sleep up to a second too long.
        self.hub.call_later(seconds, lambda: None)
        while time.monotonic() < end:
            maybe_shutdown()
            self.hub.run_once()
