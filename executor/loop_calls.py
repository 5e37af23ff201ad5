"""Calls that other threads want the event loop to make: in order, and once each, whatever the loop goes through."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from kombu.asynchronous import Hub


class LoopCalls:
    """A queue of calls that outlives the loss of a connection.

    The hub's own `call_soon` keeps no order, and forgets everything that was to be called beside something that raised:
    a connection that broke at the wrong moment would take attempts with it that have been claimed and not yet started.
    What a call raises still goes to Celery's loop, which connects anew; the calls behind it are made afterwards.
    """

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._hub: Hub | None = None

    def connect(self, hub: Hub) -> None:
        """Take up work in this event loop."""
        self._hub = hub
        hub.on_tick.add(self._make)  # for what `call_soon` forgot
        hub.call_soon(self._make)

    def put(self, call: Callable[..., None], *arguments: Any) -> None:
        """Have a call made in the loop's thread, from its next turn on; it wakes up for it."""
        self._calls.append(partial(call, *arguments))
        if self._hub is not None:
            self._hub.call_soon(self._make)

    def put_later(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> None:
        """Have a call made after a while; to be asked for in the loop's own thread."""
        if self._hub is not None:
            self._hub.call_later(delay_s, call, *arguments)

    def _make(self) -> None:
        while self._calls:
            self._calls.popleft()()
