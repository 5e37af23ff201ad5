"""The Celery application: its one task, its queues, and how it speaks to each broker."""

from collections.abc import Iterable
from typing import Any, Never

from celery import Celery
from kombu import Exchange, Queue

from turnout.config.settings import Settings
from turnout.config.urls import without_password
from turnout.metadata.messages import BrokerUnavailableError

#: The one Celery task there is. Messages carry `dag_id.task_id` as their `shadow`, which is what people see.
ATTEMPT_TASK = "turnout.attempt"
DEFAULT_QUEUE = "default_pool.default"
#: No call to the broker may block longer than this: a broker that hangs is a broker that is away.
SOCKET_TIMEOUT_S = 5


def make_app(settings: Settings, queues: Iterable[str] = ()) -> Celery:
    """Make the Celery application of one process.

    Args:
        settings: the broker's URL is taken from here.
        queues: the Celery queues that a worker consumes.
    """
    url = kombu_url(settings.broker.get_secret_value())
    app = Celery("turnout", broker=url, backend=None, set_as_current=False, fixups=[])
    on_redis = not url.startswith("amqp")
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        result_serializer="json",
        task_ignore_result=True,
        task_default_queue=DEFAULT_QUEUE,
        task_queues=[declared_queue(url, name) for name in queues],
        worker_send_task_events=True,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=on_redis,
        worker_enable_prefetch_count_reduction=False,
        worker_pool="turnout.executor.pool:AttemptTaskPool",
        worker_consumer="turnout.executor.consumer:AttemptConsumer",
        worker_pool_putlocks=False,  # the hand-off counts the slots
        worker_proc_alive_timeout=60,  # a loaded machine forks slowly; Celery's 4 s would kill children in a circle
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_connection_timeout=SOCKET_TIMEOUT_S,
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options=_redis_options() if on_redis else _amqp_options(),
        worker_cancel_long_running_tasks_on_connection_loss=False,
    )
    app.events.dispatcher_cls = "turnout.executor.dispatcher:BackgroundDispatcher"
    app.task(_run_by_hand_off, name=ATTEMPT_TASK, ignore_result=True, acks_late=False)
    return app


def kombu_url(url: str) -> str:
    """Translate a broker URL into kombu's words: Valkey speaks Redis."""
    return "redis" + url.removeprefix("valkey") if url.startswith("valkey://") else url


def unavailable(url: str, error: Exception) -> BrokerUnavailableError:
    """Say that the broker cannot be used, without its password."""
    reason = " ".join(str(error.__cause__ or error).split()).rstrip(".")
    return BrokerUnavailableError(
        f"Cannot use the message broker at {without_password(url)}: {reason}. "
        "Check that it is running there and that TURNOUT_BROKER_URL is right."
    )


def declared_queue(url: str, name: str) -> Queue:
    """Describe a Celery queue as both the publisher and the worker declare it: durable, on the default exchange."""
    replicated = {"x-queue-type": "quorum"} if url.startswith("amqp") else None
    return Queue(name, Exchange(""), routing_key=name, durable=True, queue_arguments=replicated)


def _redis_options() -> dict[str, Any]:
    """Options for Redis and Valkey.

    kombu's emulation of acknowledgements (two more round trips for each message, to bring back after an hour what a
    dead worker held) is off: a message is only a hint, and one that is lost is replaced by any scheduler after seconds.
    """
    return {
        "ack_emulation": False,
        "socket_timeout": SOCKET_TIMEOUT_S,
        "socket_connect_timeout": SOCKET_TIMEOUT_S,
        "socket_keepalive": True,
        # kombu gives up a connection that brings no answer after about twice as long, and a second; its 25 s leave
        # a worker without work for most of a minute after a network that was cut without a word.
        "health_check_interval": SOCKET_TIMEOUT_S,
    }


def _amqp_options() -> dict[str, Any]:
    """Options for RabbitMQ; without the time-outs, whoever waits for an answer of one that hangs waits for ever."""
    return {"confirm_publish": True, "read_timeout": SOCKET_TIMEOUT_S, "write_timeout": SOCKET_TIMEOUT_S}


def _run_by_hand_off() -> Never:
    raise RuntimeError("Attempts are run by `turnout worker`, not by a plain Celery worker.")
