"""The log of a task: what the task said, and what the control plane did with it, merged in the order of time."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from uuid import UUID

from turnout.cli.output import iso, remark
from turnout.executor.log_reading import Logs, Tail
from turnout.executor.logs import log_path
from turnout.metadata.listings.attempts import AttemptRow
from turnout.metadata.listings.events import events_of
from turnout.metadata.listings.task_instances import TaskInstanceRow

_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Line:
    """A line of the merged log; its fields are those of the REST API, and where it comes from."""

    timestamp: str | None
    event: str
    level: str
    logger: str
    source: Literal["task", "turnout"]
    try_number: int


Timed = tuple[datetime, Line]


class LogFeed:
    """Reads a log as far as it is there, and at each further call what has come since.

    Args:
        logs: where the logs are.
        instance: the task instance.
    """

    def __init__(self, logs: Logs, instance: TaskInstanceRow) -> None:
        self._logs = logs
        self._instance = instance
        self._tails: dict[UUID, Tail] = {}
        self._told: set[tuple[UUID, datetime, str]] = set()
        self._moment = _EARLIEST

    def read(self, attempts: Sequence[AttemptRow], *, to_the_end: bool = False) -> Iterator[Line]:
        """Read what is new of some attempts.

        Args:
            attempts: their rows, read before this call: what an attempt that has ended has said is then all there.
            to_the_end: nobody will call again: read also a last line that has no end.
        """
        said = self._said(attempts, to_the_end=to_the_end)
        return (line for _, line in heapq.merge(self._events(attempts), said, key=lambda timed: timed[0]))

    def is_whole(self, attempt: AttemptRow) -> bool:
        """Tell whether everything that an ended attempt said can be read now."""
        return attempt.start_date is None or self._tail(attempt).is_whole()

    def tell_missing(self, attempts: Iterable[AttemptRow]) -> None:
        """Remark which of the attempts have no log here."""
        for attempt in attempts:
            tail = self._tail(attempt)
            if attempt.start_date is not None and not tail.exists():
                where = f": it was written on {attempt.hostname}" if attempt.hostname else ""
                remark(f"The log {tail.where} is not here{where}, if the task had begun.")

    def _events(self, attempts: Iterable[AttemptRow]) -> Iterator[Timed]:
        for event in events_of(attempts):
            known = (event.attempt_id, event.timestamp, event.event)
            if known not in self._told:
                self._told.add(known)
                line = Line(iso(event.timestamp), event.event, event.level, "turnout", "turnout", event.try_number)
                yield event.timestamp, line

    def _said(self, attempts: Iterable[AttemptRow], *, to_the_end: bool) -> Iterator[Timed]:
        """Read what the task said, each line with the time at which it belongs."""
        for attempt in attempts:
            if attempt.start_date is None:
                continue
            self._moment = max(self._moment, attempt.start_date)
            try:
                for entry in self._tail(attempt).read(to_the_end=to_the_end or attempt.end_date is not None):
                    self._moment = max(self._moment, datetime.fromisoformat(entry.ts)) if entry.ts else self._moment
                    stamp = iso(self._moment) if entry.ts else None
                    said = self._logs.masker.mask(entry.msg)
                    yield self._moment, Line(stamp, said, entry.level, entry.logger, "task", attempt.try_number)
            except FileNotFoundError:
                continue

    def _tail(self, attempt: AttemptRow) -> Tail:
        if attempt.attempt_id not in self._tails:
            name = log_path(
                Path(),
                dag_id=self._instance.dag_id,
                run_id=self._instance.dag_run_id,
                task_id=self._instance.task_id,
                map_index=self._instance.map_index,
                try_number=attempt.try_number,
                attempt_id=attempt.attempt_id,
            )
            self._tails[attempt.attempt_id] = self._logs.tail(name)
        return self._tails[attempt.attempt_id]
