"""Events that wait for the broker, and nobody who waits for them."""

import threading
from typing import Any

from pydantic import SecretStr

from turnout.config.settings import Settings
from turnout.executor.app import make_app
from turnout.executor.dispatcher import BackgroundDispatcher


class SlowProducer:
    """Publishes when the gate is open."""

    def __init__(self, error: Exception | None = None) -> None:
        self.gate = threading.Event()
        self.error = error
        self.published: list[str] = []

    def publish(self, _event: Any, routing_key: str, **_kwargs: Any) -> None:
        self.gate.wait()
        self.published.append(routing_key)
        if self.error:
            raise self.error


def make(producer: SlowProducer) -> BackgroundDispatcher:
    app = make_app(Settings(broker_url=SecretStr("memory://")))
    dispatcher = app.events.Dispatcher(enabled=False)
    assert isinstance(dispatcher, BackgroundDispatcher)
    dispatcher.enabled, dispatcher.producer = True, producer
    dispatcher.open_producer = lambda: producer  # type: ignore[method-assign]
    return dispatcher


def test_nobody_waits_for_an_event_and_what_is_left_at_the_end_is_sent() -> None:
    producer = SlowProducer()
    dispatcher = make(producer)
    dispatcher.send("worker-online")
    dispatcher.send("worker-offline")
    assert producer.published == []
    producer.gate.set()
    dispatcher.close()
    assert producer.published == ["worker.online", "worker.offline"]


def test_more_events_than_may_wait_are_dropped_and_the_end_comes_all_the_same() -> None:
    producer = SlowProducer()
    dispatcher = make(producer)
    for _ in range(1200):
        dispatcher.send("worker-heartbeat")
    dispatcher.close()  # it returns
    assert producer.published == []
    producer.gate.set()


def test_an_event_that_cannot_be_sent_costs_no_other() -> None:
    producer = SlowProducer(OSError("no route"))
    producer.gate.set()
    dispatcher = make(producer)
    dispatcher.send("worker-online")
    dispatcher.send("worker-offline")
    dispatcher.close()
    assert producer.published == ["worker.online", "worker.offline"]
