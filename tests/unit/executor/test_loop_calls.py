"""Calls to the event loop are made in order, and once each, also when a connection breaks between two of them."""

from collections.abc import Iterator

import pytest
from kombu.asynchronous import Hub

from turnout.executor.loop_calls import LoopCalls


class BrokenConnectionError(Exception):
    """What the broker's client raises."""


def fail() -> None:
    raise BrokenConnectionError


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    yield hub
    hub.close()


@pytest.fixture
def calls(hub: Hub) -> LoopCalls:
    calls = LoopCalls()
    calls.connect(hub)
    return calls


def turn(hub: Hub) -> None:
    """Make one turn of a loop that begins anew, as Celery's does with each connection."""
    next(hub.create_loop())


def test_calls_are_made_in_the_order_in_which_they_were_asked_for(hub: Hub, calls: LoopCalls) -> None:
    made: list[int] = []
    for number in range(50):
        calls.put(made.append, number)
    turn(hub)
    assert made == list(range(50))


def test_a_call_that_is_asked_for_before_there_is_a_loop_is_made_later(hub: Hub) -> None:
    calls, made = LoopCalls(), list[int]()
    calls.put(made.append, 1)
    calls.connect(hub)
    turn(hub)
    assert made == [1]


def test_a_call_that_raises_takes_no_other_with_it_and_is_not_made_again(hub: Hub, calls: LoopCalls) -> None:
    made: list[str] = []
    calls.put(made.append, "before")
    calls.put(fail)
    calls.put(made.append, "after")
    with pytest.raises(BrokenConnectionError):
        turn(hub)
    hub.reset()  # what Celery does with a loop that was left by an exception
    turn(hub)
    assert made == ["before", "after"]


def test_calls_outlive_a_loop_that_is_cleaned_up_while_one_of_them_raises(hub: Hub, calls: LoopCalls) -> None:
    made: list[str] = []
    calls.put(fail)
    calls.put(made.append, "after")
    with pytest.raises(BrokenConnectionError):
        hub.reset()
    turn(hub)
    assert made == ["after"]


def test_calls_outlive_something_foreign_that_raises_beside_them(hub: Hub, calls: LoopCalls) -> None:
    for number in range(20):  # the hub keeps no order: some of these come before ours, whichever way it turns
        made: list[int] = []
        hub.call_soon(fail)
        calls.put(made.append, number)
        hub.call_soon(fail)
        with pytest.raises(BrokenConnectionError):
            turn(hub)
        turn_until_quiet(hub)
        assert made == [number]


def turn_until_quiet(hub: Hub) -> None:
    try:
        turn(hub)
    except BrokenConnectionError:
        turn_until_quiet(hub)
