"""A queue whose reader takes everything at once: what makes a batch."""

import threading
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """Items from many threads for one, which takes all that has arrived."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._items: list[T] = []
        self._closed = False

    def put(self, items: Iterable[T]) -> None:
        """Add items and wake the reader."""
        with self._changed:
            self._items.extend(items)
            self._changed.notify()

    def take_all(self, timeout_s: float | None = None) -> list[T]:
        """Wait for at least one item and take all there are; nothing when closed or after `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._closed, timeout_s)
            items, self._items = self._items, []
            return items

    def close(self) -> None:
        """Let the reader no longer wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._items)
