"""Step 5, publish: each batch until it has arrived, in order, from a thread that nothing waits for."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import uuid4

import pytest

from turnout.metadata.messages import AttemptMessage, BrokerUnavailableError, LostAttempt, OverdueWorker
from turnout.scheduler.publish import Publisher


class ScriptedBroker:
    """Fails as often as it is told, and notes what arrives."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.arrived: list[str] = []
        self.asked = 0
        self.open = threading.Event()
        self.open.set()

    def publish(self, messages: Sequence[AttemptMessage]) -> None:
        self.asked += 1
        self.open.wait(30)
        if self.failures:
            raise self.failures.pop(0)
        self.arrived += [message.task_id for message in messages]

    def depths(self, queues: Iterable[str]) -> dict[str, int]:
        return dict.fromkeys(queues, 0)

    def warn(self, workers: Sequence[OverdueWorker]) -> None:
        raise AssertionError(workers)

    def tell_lost(self, lost: Sequence[LostAttempt]) -> None:
        raise AssertionError(lost)

    def close(self) -> None:
        pass


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


@pytest.fixture
def publisher(broker: ScriptedBroker) -> Iterator[Publisher]:
    publisher = Publisher(broker)
    publisher.start()
    yield publisher
    publisher.stop()


def message(name: str) -> AttemptMessage:
    return AttemptMessage(1, uuid4(), "d", "r", name, -1, 1, "default_pool", "default")


def test_batches_arrive_in_order_though_the_broker_is_away_at_first(
    broker: ScriptedBroker, publisher: Publisher, eventually: Callable[..., object]
) -> None:
    broker.failures = [BrokerUnavailableError("away"), BrokerUnavailableError("away")]
    for name in "abc":
        publisher.submit([message(name)])
    eventually(lambda: len(broker.arrived) == 3)
    assert broker.arrived == ["a", "b", "c"]


def test_what_comes_in_meanwhile_is_published_together(
    broker: ScriptedBroker, publisher: Publisher, eventually: Callable[..., object]
) -> None:
    broker.open.clear()
    publisher.submit([message("a")])
    eventually(lambda: broker.asked == 1)
    for name in "bcd":
        publisher.submit([message(name)])
    broker.open.set()
    eventually(lambda: len(broker.arrived) == 4)
    assert (broker.arrived, broker.asked) == (["a", "b", "c", "d"], 2)


def test_an_error_that_is_no_outage_costs_one_batch_at_most(
    broker: ScriptedBroker, publisher: Publisher, eventually: Callable[..., object]
) -> None:
    broker.failures = [ValueError("a bug")]
    publisher.submit([message("a")])
    eventually(lambda: not broker.failures)
    publisher.submit([message("b")])
    eventually(lambda: broker.arrived == ["b"])


def test_what_was_submitted_before_the_stop_is_published(broker: ScriptedBroker, publisher: Publisher) -> None:
    broker.open.clear()
    for name in "abc":
        publisher.submit([message(name)])
    threading.Timer(0.01, broker.open.set).start()
    publisher.stop()
    assert broker.arrived == ["a", "b", "c"]
    publisher.stop()


def test_a_publisher_stops_though_the_broker_is_away(
    broker: ScriptedBroker, publisher: Publisher, eventually: Callable[..., object]
) -> None:
    broker.failures = [BrokerUnavailableError("away")] * 1000
    publisher.submit([message("a")])
    eventually(lambda: broker.asked)
    publisher.stop()
    assert broker.arrived == []


def test_nothing_is_published_for_an_empty_batch(broker: ScriptedBroker, publisher: Publisher) -> None:
    publisher.submit([])
    publisher.stop()
    assert broker.asked == 0
