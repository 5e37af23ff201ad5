"""The guard of the steps: a run or a DAG that cannot be dealt with stops itself only, and not the others.

A step is tried as a whole, which costs nothing more. When the database refuses a statement, or our own code raises, it
is done once more with its items in halves, and halves of halves, until what cannot be dealt with stands alone. That is
logged, and left alone for a while.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import structlog

from turnout.metadata.engine import Connection, is_about_statement
from turnout.metadata.errors import DatabaseUnavailableError, SchemaError, TermOverError

log = structlog.get_logger(__name__)

#: How long something that was refused is left alone: as long as the sweep waits, which brings its news back.
LEAVE_ALONE_S = 30.0

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")
#: What the log says of an item, and what it is known by.
Describe = Callable[[I], Mapping[str, str]]


class Each(Protocol):
    """How a step deals with its items."""

    def __call__(self, items: Sequence[I], work: Callable[[Sequence[I]], R], describe: Describe[I]) -> list[R]:
        """Do the work for all items; return its results, which are several when it was done in parts."""


def together(items: Sequence[I], work: Callable[[Sequence[I]], R], describe: Describe[I]) -> list[R]:  # noqa: ARG001
    """Do the work for all items at once."""
    return [work(items)] if items else []


class Guard:
    """The guard of one scheduler."""

    def __init__(self) -> None:
        self._left_alone: dict[tuple[str, ...], float] = {}

    def transact(
        self, transact: "Callable[[Callable[[Connection], R]], R]", step: Callable[[Connection, Each], R]
    ) -> R:
        """Run a step in a transaction; when that fails, in another one that goes without what cannot be dealt with.

        Args:
            transact: runs what it is given in a transaction.
            step: does the step, and leaves to its second argument what it does for each item.

        Raises:
            TermOverError: the scheduler's term is over.
            MetadataError: the database cannot be used.
        """
        try:
            return transact(lambda c: step(c, self._together))
        except (DatabaseUnavailableError, SchemaError, TermOverError):
            raise
        except Exception as error:  # noqa: BLE001  it comes again, with the item that is to blame
            log.warning("step.divided", error=str(error))
            return transact(lambda c: step(c, self._apart(c)))

    def _together(self, items: Sequence[I], work: Callable[[Sequence[I]], R], describe: Describe[I]) -> list[R]:
        return together(self._known_good(items, describe), work, describe)

    def _apart(self, connection: Connection) -> Each:
        def each(items: Sequence[I], work: Callable[[Sequence[I]], R], describe: Describe[I]) -> list[R]:
            items = self._known_good(items, describe)
            if not items:
                return []
            try:
                with connection.begin_nested():
                    return [work(items)]
            except Exception as error:
                if not is_about_statement(error):
                    raise
                if len(items) == 1:
                    log.exception("step.refused", **describe(items[0]), left_alone_s=LEAVE_ALONE_S)
                    self._left_alone[_key(describe(items[0]))] = time.monotonic() + LEAVE_ALONE_S
                    return []
            half = len(items) // 2
            return each(items[:half], work, describe) + each(items[half:], work, describe)

        return each

    def _known_good(self, items: Sequence[I], describe: Describe[I]) -> Sequence[I]:
        if not self._left_alone:
            return items
        now = time.monotonic()
        self._left_alone = {key: until for key, until in self._left_alone.items() if until > now}
        return [item for item in items if _key(describe(item)) not in self._left_alone]


def _key(words: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(words.values())
