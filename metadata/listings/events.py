"""What the control plane did with an attempt, told from its row, to be read among the lines of the task's own log."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from turnout.metadata.listings.attempts import AttemptRow
from turnout.metadata.states import Outcome


@dataclass(frozen=True)
class AttemptEvent:
    """Something that happened to an attempt."""

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
        yield AttemptEvent(attempt.queued_when, f"Queued for {attempt.queue}{by}.")
    if attempt.start_date:
        host = f" on {attempt.hostname}" if attempt.hostname else ""
        yield AttemptEvent(attempt.start_date, f"Claimed by {attempt.worker}{host}: try {attempt.try_number}.")
    if attempt.end_date and attempt.outcome:
        yield _ending(attempt.end_date, attempt)


def _ending(moment: datetime, attempt: AttemptRow) -> AttemptEvent:
    why = f" ({attempt.cause.replace('_', ' ')})" if attempt.cause else ""
    match attempt.outcome:
        case Outcome.SUCCESS | Outcome.SKIPPED:
            return AttemptEvent(moment, f"Ended: {attempt.outcome}{why}.")
        case Outcome.RETURNED:
            return AttemptEvent(moment, f"Returned before it started{why}: it is queued anew.", "warning")
        case Outcome.CANCELLED:
            return AttemptEvent(moment, f"Ended from outside{why}. {attempt.error or ''}".rstrip(), "warning")
        case Outcome.LOST:
            return AttemptEvent(
                moment, f"Lost{why}, through no fault of the task. {attempt.error or ''}".rstrip(), "error"
            )
    return AttemptEvent(moment, f"Ended: {attempt.outcome}{why}. {attempt.error or ''}".rstrip(), "error")
