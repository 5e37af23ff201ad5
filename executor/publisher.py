"""The scheduler's side of the broker: publish batches of messages, and look how deep queues are."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

from celery import Celery
from celery.events import EventDispatcher
from kombu import Connection, Producer
from kombu.exceptions import KombuError

from turnout.config.settings import Settings
from turnout.executor import overdue
from turnout.executor.app import ATTEMPT_TASK, SOCKET_TIMEOUT_S, declared_queue, make_app, unavailable
from turnout.executor.events import send_lost
from turnout.metadata.messages import AttemptMessage, BrokerUnavailableError, LostAttempt, OverdueWorker

T = TypeVar("T")

#: The task takes no arguments: the ids are in the headers, and everything else is in the database.
_BODY = json.dumps([[], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])
_ORIGIN = f"{os.getpid()}@{socket.gethostname()}"
#: Messages of one pipeline to Redis; kombu flushes in between.
_PIPELINE = 1000


class CeleryBroker:
    """The broker behind `turnout.metadata.messages.Broker`. Threads may share it.

    Questions have a connection of their own, so that one to a slow broker does not hold up messages. A batch that fails
    is safe to publish again: what did arrive the first time is dropped as a duplicate.
    """

    def __init__(self, settings: Settings) -> None:
        self._app = make_app(settings)
        self._is_amqp = self._app.conf.broker_url.startswith("amqp")
        self._messages, self._questions = _Line(self._app), _Line(self._app)
        self._events: EventDispatcher | None = None

    def publish(self, messages: Sequence[AttemptMessage]) -> None:
        """Publish a batch, in one pipeline where the broker has one.

        Raises:
            BrokerUnavailableError: any of it may not have arrived.
        """
        if messages:
            self._messages.call(lambda producer: self._publish(producer, messages))

    def depths(self, queues: Iterable[str]) -> dict[str, int]:
        """Count the messages that wait in each Celery queue.

        Delivered but unacknowledged ones are not counted: a live worker acknowledges as soon as it has claimed, within
        milliseconds, so what stays unacknowledged is held by a worker that is dead or has no database. For the
        question asked here, "is this message lost?", the answer is yes, and publishing a new attempt is always safe.

        Raises:
            BrokerUnavailableError: the broker cannot be asked.
        """
        return self._questions.call(lambda producer: {queue: self._depth(producer, queue) for queue in queues})

    def warn(self, workers: Sequence[OverdueWorker]) -> None:
        """Tell workers that their leases are about to be over, although the database is well.

        Raises:
            BrokerUnavailableError: it may not have arrived.
        """
        self._questions.call(lambda producer: overdue.send(self._app, producer.connection, workers))

    def tell_lost(self, lost: Sequence[LostAttempt]) -> None:
        """Tell Flower of attempts whose workers are dead, from a thread of its own."""
        if lost:
            if self._events is None:
                self._events = self._app.events.Dispatcher(app=self._app)
            send_lost(self._events, lost)

    def close(self) -> None:
        """Give up the connections."""
        self._messages.close()
        self._questions.close()
        if self._events is not None:
            self._events.close()

    def _publish(self, producer: Producer, messages: Sequence[AttemptMessage]) -> None:
        url = self._app.conf.broker_url
        with producer.batch(max_size=_PIPELINE):
            for message in messages:
                producer.publish(
                    _BODY,
                    routing_key=message.celery_queue,
                    # AMQP drops a message to a queue that is not there; in Redis the queue is a list that comes to be.
                    declare=[declared_queue(url, message.celery_queue)] if self._is_amqp else None,
                    content_type="application/json",
                    content_encoding="utf-8",
                    headers=_headers(message),
                    correlation_id=str(message.attempt_id),
                    timeout=SOCKET_TIMEOUT_S,
                    confirm_timeout=SOCKET_TIMEOUT_S,
                )

    def _depth(self, producer: Producer, queue: str) -> int:
        # AMQP closes the channel on which it is asked for a queue that is not there; elsewhere a channel is dear.
        with producer.connection.channel() if self._is_amqp else nullcontext(producer.channel) as channel:
            try:
                return int(channel.queue_declare(queue, passive=True).message_count)
            except producer.connection.channel_errors:  # there is no such queue (yet)
                return 0


class _Line:
    """A connection to the broker that is made when it is needed, and anew when it has died; one call at a time."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._producer: Producer | None = None

    def call(self, work: Callable[[Producer], T]) -> T:
        """Do something with it.

        Raises:
            BrokerUnavailableError: it could not be done, or not to its end.
        """
        with self._lock:
            stale = self._producer is not None
            try:
                return self._try(work)
            except BrokerUnavailableError:
                if not stale:
                    raise
                # The connection that was kept had died; a fresh one tells whether the broker has.
                return self._try(work)

    def close(self) -> None:
        """Give it up."""
        with self._lock:
            self._disconnect()

    def _try(self, work: Callable[[Producer], T]) -> T:
        try:
            return work(self._producer or self._connect())
        except (KombuError, OSError, *self._transport_errors()) as error:
            self._disconnect()
            raise unavailable(self._app.conf.broker_url, error) from error

    def _transport_errors(self) -> tuple[type[Exception], ...]:
        transport: Any = self._app.connection_for_write().transport
        return (*transport.connection_errors, *transport.channel_errors)

    def _connect(self) -> Producer:
        self._connection = self._app.connection_for_write()
        self._connection.connect()
        self._producer = Producer(self._connection.default_channel)
        return self._producer

    def _disconnect(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            connection.collect(socket_timeout=SOCKET_TIMEOUT_S)


def _headers(message: AttemptMessage) -> dict[str, Any]:
    """Write the headers of Celery's message protocol 2; `shadow` and the reprs are what Flower shows."""
    attempt_id = str(message.attempt_id)
    return {
        "lang": "py",
        "task": ATTEMPT_TASK,
        "id": attempt_id,
        "root_id": attempt_id,
        "parent_id": None,
        "group": None,
        "shadow": f"{message.dag_id}.{message.task_id}",
        "retries": 0,
        "eta": None,
        "expires": None,
        "timelimit": [None, None],
        "argsrepr": f"({message.run_id!r},)",
        "kwargsrepr": f"{{'map_index': {message.map_index}, 'try': {message.try_number}}}",
        "origin": _ORIGIN,
        "ignore_result": True,
        "turnout_ti": message.task_instance_id,
    }
