"""What the control plane did with an attempt, told from its row, to be read among the lines of the task's own log."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from turnout.metadata.listings.attempts import AttemptRow
from turnout.metadata.states import Outcome


@dataclass(frozen=True)
class AttemptEvent:
    """Something that happened to an attempt."""

    attempt_id: UUID
    try_number: int
    timestamp: datetime
    event: str
    level: str = "info"


def events_of(attempts: Iterable[AttemptRow]) -> list[AttemptEvent]:
    """Tell what happened to some attempts, in the order of time."""
    events = [event for attempt in attempts for event in _told(attempt)]
    return sorted(events, key=lambda event: event.timestamp)


def _told(attempt: AttemptRow) -> Iterable[AttemptEvent]:
    if attempt.queued_when:
        by = f" by {attempt.scheduler}" if attempt.scheduler else ""
        yield _event(attempt, attempt.queued_when, f"Queued for {attempt.queue}{by}.")
    if attempt.start_date:
        host = f" on {attempt.hostname}" if attempt.hostname else ""
        yield _event(attempt, attempt.start_date, f"Claimed by {attempt.worker}{host}: try {attempt.try_number}.")
    if attempt.end_date and attempt.outcome:
        yield _event(attempt, attempt.end_date, *_ending(attempt))


def _event(attempt: AttemptRow, timestamp: datetime, event: str, level: str = "info") -> AttemptEvent:
    return AttemptEvent(attempt.attempt_id, attempt.try_number, timestamp, event, level)


def _ending(attempt: AttemptRow) -> tuple[str, str]:
    why = f" ({attempt.cause.replace('_', ' ')})" if attempt.cause else ""
    error = f" {attempt.error}" if attempt.error else ""
    match attempt.outcome:
        case Outcome.SUCCESS | Outcome.SKIPPED:
            return f"Ended: {attempt.outcome}{why}.", "info"
        case Outcome.RETURNED:
            return f"Returned before it started{why}: it is queued anew.", "warning"
        case Outcome.CANCELLED:
            return f"Ended from outside{why}.{error}", "warning"
        case Outcome.LOST:
            return f"Lost{why}, through no fault of the task.{error}", "error"
    return f"Ended: {attempt.outcome}{why}.{error}", "error"
