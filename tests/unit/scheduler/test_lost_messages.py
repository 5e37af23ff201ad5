"""Lost messages: asked for from a thread of its own, so that a broker that hangs keeps nobody."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import uuid4

import pytest

from turnout.metadata.messages import AttemptMessage, BrokerUnavailableError, LostAttempt, OverdueWorker
from turnout.metadata.stuck import Unclaimed
from turnout.scheduler.lost_messages import LostMessages

Eventually = Callable[..., object]


class SlowBroker:
    """Answers when it is let, and counts how often it was asked."""

    def __init__(self) -> None:
        self.depth = 0
        self.asked = 0
        self.error: Exception | None = None
        self.open = threading.Event()
        self.open.set()

    def publish(self, messages: Sequence[AttemptMessage]) -> None:
        raise AssertionError(messages)

    def depths(self, queues: Iterable[str]) -> dict[str, int]:
        self.asked += 1
        self.open.wait(30)
        if self.error:
            raise self.error
        return dict.fromkeys(queues, self.depth)

    def warn(self, workers: Sequence[OverdueWorker]) -> None:
        raise AssertionError(workers)

    def tell_lost(self, lost: Sequence[LostAttempt]) -> None:
        raise AssertionError(lost)

    def close(self) -> None:
        pass


@pytest.fixture
def broker() -> Iterator[SlowBroker]:
    broker = SlowBroker()
    yield broker
    broker.open.set()


def unclaimed(number: int, *, is_late: bool = True) -> Unclaimed:
    return Unclaimed(number, uuid4(), "default_pool", "default", is_late)


def test_as_many_late_ones_are_lost_as_messages_are_missing(broker: SlowBroker) -> None:
    broker.depth = 2
    waiting = [unclaimed(1), unclaimed(2), unclaimed(3, is_late=False), unclaimed(4, is_late=False)]
    assert LostMessages(broker).find(waiting) == waiting[:2]
    broker.depth = 3
    assert LostMessages(broker).find(waiting) == waiting[:1]


def test_a_broker_that_hangs_is_asked_once_and_its_answer_is_used_when_it_comes(
    broker: SlowBroker, eventually: Eventually
) -> None:
    broker.open.clear()
    lost, first = LostMessages(broker), [unclaimed(1)]
    assert lost.find(first) == []
    assert lost.find([unclaimed(2)]) == []
    assert broker.asked == 1
    assert lost.ongoing is not None
    assert lost.ongoing.error == "The message broker does not answer."
    broker.open.set()
    eventually(lambda: lost.find([unclaimed(3)]) == first)
    assert lost.ongoing is None


def test_a_broker_that_is_away_is_asked_again_and_is_told_of_until_it_is_back_or_nothing_waits(
    broker: SlowBroker, eventually: Eventually
) -> None:
    broker.error = BrokerUnavailableError("away")
    lost, waiting = LostMessages(broker), [unclaimed(1)]
    assert lost.find(waiting) == []
    assert lost.ongoing is not None
    assert lost.ongoing.error == "away"
    broker.error = None
    eventually(lambda: lost.find(waiting) == waiting)
    assert lost.ongoing is None
    broker.error = BrokerUnavailableError("away")
    assert lost.find(waiting) == []
    assert lost.find([unclaimed(1, is_late=False)]) == []
    assert lost.ongoing is None


def test_a_mistake_of_ours_is_raised_where_the_answer_is_taken(broker: SlowBroker) -> None:
    broker.error = ZeroDivisionError()
    lost = LostMessages(broker)
    with pytest.raises(ZeroDivisionError):
        lost.find([unclaimed(1)])
    broker.error = None
    assert len(lost.find([unclaimed(1)])) == 1
