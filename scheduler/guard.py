"""The guard of the steps: what cannot be dealt with (a DAG, a run, a task instance) stops itself only.

A step is tried as a whole, which costs nothing more. When the database refuses a statement, or our own code raises, it
is done once more with its items in halves, and halves of halves, until what cannot be dealt with stands alone. That is
logged, and left alone for a while.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog

from turnout.metadata.engine import Connection, is_about_statement
from turnout.metadata.errors import DatabaseUnavailableError, SchemaError, TermOverError
from turnout.metadata.processes import Trouble

log = structlog.get_logger(__name__)

#: How long something that was refused is left alone: as long as the sweep waits, which brings its news back.
LEAVE_ALONE_S = 30.0

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")
#: What the log says of an item, and what it is known by.
Describe = Callable[[I], Mapping[str, str]]


@dataclass(frozen=True)
class _Refusal:
    words: Mapping[str, str]
    error: str
    at: float

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.at + LEAVE_ALONE_S


class LeftAlone:
    """What was refused lately. The list is never changed, but replaced: another thread may be reading it."""

    def __init__(self) -> None:
        self._refusals: Sequence[_Refusal] = ()

    def note(self, words: Mapping[str, str], error: Exception) -> None:
        """Leave something alone from now on."""
        log.error("step.refused", **words, left_alone_s=LEAVE_ALONE_S, exc_info=error)
        self._refusals = [*self._refusals, _Refusal(words, str(error), time.monotonic())]

    def without(self, items: Sequence[I], describe: Describe[I]) -> Sequence[I]:
        """Leave out of some items what is left alone."""
        if not self._refusals:
            return items
        self._refusals = [one for one in self._refusals if not one.is_over]
        known = {tuple(one.words.items()) for one in self._refusals}
        return [item for item in items if tuple(describe(item).items()) not in known]

    def named(self, word: str) -> set[str]:
        """Say by one word of its description what is left alone."""
        return {one.words[word] for one in self._refusals if word in one.words and not one.is_over}

    def troubles(self) -> list[Trouble]:
        """Tell what is left alone, and why."""
        now = time.monotonic()
        return [Trouble("refused", one.error, now - one.at, one.words) for one in self._refusals if not one.is_over]


class Each:
    """How a step deals with its items: with all at once, but for those that are left alone."""

    def __init__(self, left_alone: LeftAlone | None = None) -> None:
        self.left_alone = left_alone or LeftAlone()

    def __call__(self, items: Sequence[I], work: Callable[[Sequence[I]], R], describe: Describe[I]) -> list[R]:
        """Do the work for all items; return its results, which are several when it was done in parts."""
        items = self.left_alone.without(items, describe)
        return [work(items)] if items else []


class _Apart(Each):
    """With all at once if that succeeds; else in halves, down to the one that is to blame."""

    def __init__(self, left_alone: LeftAlone, connection: Connection) -> None:
        super().__init__(left_alone)
        self._connection = connection

    def __call__(self, items: Sequence[I], work: Callable[[Sequence[I]], R], describe: Describe[I]) -> list[R]:
        items = self.left_alone.without(items, describe)
        if not items:
            return []
        try:
            with self._connection.begin_nested():
                return [work(items)]
        except Exception as error:
            if not is_about_statement(error):
                raise
            if len(items) == 1:
                self.left_alone.note(describe(items[0]), error)
                return []
        half = len(items) // 2
        return self(items[:half], work, describe) + self(items[half:], work, describe)


TOGETHER = Each()


class Guard:
    """The guard of one scheduler."""

    def __init__(self) -> None:
        self.left_alone = LeftAlone()

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
            return transact(lambda c: step(c, Each(self.left_alone)))
        except (DatabaseUnavailableError, SchemaError, TermOverError):
            raise
        except Exception as error:  # noqa: BLE001  it comes again, with the item that is to blame
            log.warning("step.divided", error=str(error))
            return transact(lambda c: step(c, _Apart(self.left_alone, c)))
