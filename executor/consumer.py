"""Celery's consumer, for a worker whose work does not hang on the broker.

Once claimed, an attempt is protected by its lease in the database. Losing the broker therefore changes nothing for what
this worker holds: it goes on running, its results are read, and requests that have arrived are still claimed. Celery's
own consumer would forget jobs that no child has accepted yet, and would stop looking at its pool until the broker is
back.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import structlog
from celery.worker.consumer import Consumer
from celery.worker.state import maybe_shutdown
from kombu import Connection, Queue

from turnout.config.outage import Outage

T = TypeVar("T")
log = structlog.get_logger(__name__)

#: How long an event may wait for others; people watch Flower, and its own page refreshes more slowly.
_EVENT_DELAY_S = 0.25


class AttemptConsumer(Consumer):  # type: ignore[misc]  # celery has no types
    """A consumer that keeps the event loop turning while it has no broker."""

    class Blueprint(Consumer.Blueprint):  # type: ignore[misc]
        """Celery's steps but one: nothing here is delayed by the broker."""

        default_steps: ClassVar = [step for step in Consumer.Blueprint.default_steps if "delayed_delivery" not in step]

    connection: Any
    task_consumer: Any
    timer_entries_before_start: set[Any]

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

    def follow(self, new: Sequence[Queue], gone: Sequence[str]) -> None:
        """Consume more queues, and others no longer."""
        queues = self.app.amqp.queues  # what the next connection will consume, if this one breaks below
        for queue in new:
            queues.select_add(queue)
        for name in gone:
            queues.deselect(name)
        if self.task_consumer is not None:
            for queue in new:
                self.task_consumer.add_queue(queue)
            for name in gone:
                self.task_consumer.cancel_by_queue(name)
            self._consume()

    def call_soon_ack(self, answer: Callable[..., None], *args: Any) -> None:
        """Answer a message, unless its connection is gone: then the broker delivers it again, to be dropped."""
        self.controller.calls.put(self._answer, answer, *args)

    def _answer(self, answer: Callable[..., None], logger: Any, _errors: Any, *args: Any) -> None:
        message = answer.__self__  # type: ignore[attr-defined]  # a method of kombu's message
        if self.task_consumer is not None and message.channel is self.task_consumer.channel:
            answer(logger, (), *args)  # without errors to swallow: a connection that fails here is to be replaced

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Let go of a broken connection."""
        self._outage.note(exc)
        connection, self.connection, self.task_consumer = self.connection, None, None
        if connection is not None:
            connection.collect(socket_timeout=1)

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        """Take note that the broker cannot be reached."""
        self._outage.note(exc)

    def shutdown(self) -> None:
        """Take leave of the broker, unless it does not answer: its connections end with this process."""
        if self._outage.ongoing is None:
            super().shutdown()

    def on_close(self) -> None:
        """Keep everything: requests that have arrived, claimed attempts, and jobs on their way to a child."""

    def ensure_connected(self, conn: Connection) -> Connection:
        """Connect, however long it takes; the event loop turns meanwhile."""
        errors = (*conn.recoverable_connection_errors, *conn.recoverable_channel_errors)
        with self._pool_in_loop():
            while (error := self._turn_until(self._connect(conn))) is not None:
                if not isinstance(error, errors):
                    raise error
                pause: Future[None] = Future()
                self.hub.call_later(self._outage.note(error), pause.set_result, None)
                self._turn_until(pause)
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

    @contextmanager
    def _pool_in_loop(self) -> Iterator[None]:
        """Hear of the children without a connection: with one, Celery forgets its pool, and adds it with the next."""
        before = self._timers()
        self.controller.pool.register_with_event_loop(self.hub)
        for_the_pool = self._timers() - before
        try:
            yield
        finally:
            for timer in for_the_pool:
                self.hub.timer.cancel(timer)
            # Celery takes all that is new since it began to connect for the connection's own, to end with it.
            self.timer_entries_before_start |= self._timers() - before

    def _timers(self) -> set[Any]:
        return {scheduled.entry for scheduled in self.hub.timer.queue}

    def _connect(self, conn: Connection) -> "Future[Exception | None]":
        """Connect in a thread of its own: that a broker hangs is found out after seconds only."""
        connected: Future[Exception | None] = Future()

        def connect() -> None:
            try:
                conn.connect()
                # Redis connects lazily: only a command tells whether the server answers.
                conn.default_channel  # noqa: B018
            except Exception as error:  # noqa: BLE001  judged in the loop's thread
                conn.collect(socket_timeout=1)
                connected.set_result(error)
            else:
                connected.set_result(None)
            self.controller.calls.put(connected.done)  # wakes the loop

        threading.Thread(target=connect, name="connect", daemon=True).start()
        return connected

    def _turn_until(self, done: "Future[T]") -> T:
        """Run the event loop for a while: children report, jobs start, and other threads' calls are made."""
        while not done.done():
            maybe_shutdown()
            self.hub.run_once()
        return done.result()
