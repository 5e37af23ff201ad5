"""A timetable that is a list of dates."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from turnout.tasks.errors import DagError
from turnout.tasks.timetables.timetable import BuiltInTimetable, DagRunInfo, DataInterval
from turnout.tasks.values import check_type
from turnout.tasks.zones import as_utc


class EventsTimetable(BuiltInTimetable):
    """A run at each of a list of moments, such as the matches of a season.

    Args:
        event_dates: the moments, in any order; those without a time zone are in UTC.
        restrict_to_events: whether a run by hand is for the latest event (the first, if none has passed), and not for
            the moment at which it was started.
        description: what the events are, for people.
    """

    def __init__(
        self, event_dates: Iterable[datetime], restrict_to_events: bool = False, description: str | None = None
    ) -> None:
        if not isinstance(event_dates, Iterable):
            raise DagError(f"event_dates must be a list of datetimes, not {event_dates!r}.")
        self._events = sorted(set(map(_event, event_dates)))
        if not self._events:
            raise DagError("event_dates is empty: name at least one date, or use schedule=None.")
        self._restrict_to_events = check_type(restrict_to_events, bool, "restrict_to_events")
        self._description = None if description is None else check_type(description, str, "description")

    def next_run(
        self,
        last: DataInterval | None,
        start: datetime | None,
        now: datetime,  # noqa: ARG002 - the dates are fixed
    ) -> DagRunInfo | None:
        """Return the run of the first event after the last and from the start date on."""
        after = 0 if last is None else bisect_right(self._events, last.end)
        first = max(after, 0 if start is None else bisect_left(self._events, start))
        return DagRunInfo.exact(self._events[first]) if first < len(self._events) else None

    def latest_run(
        self,
        last: DataInterval | None,  # noqa: ARG002 - the dates are fixed
        start: datetime | None,  # noqa: ARG002 - the same
        now: datetime,
    ) -> DagRunInfo | None:
        """Return the run of the latest event until now."""
        passed = bisect_right(self._events, now)
        return DagRunInfo.exact(self._events[passed - 1]) if passed else None

    def allows(self, run: DagRunInfo, end: datetime) -> bool:
        """Tell whether an event is no later than the DAG's end date."""
        return run.run_after <= end

    def manual_interval(self, run_after: datetime) -> DataInterval:
        """Return the empty interval at `run_after`, or at the latest event."""
        if not self._restrict_to_events:
            return DataInterval.exact(run_after)
        return DataInterval.exact(self._events[max(bisect_right(self._events, run_after) - 1, 0)])

    def to_json(self) -> dict[str, Any]:
        """Return what `timetable_from_json` reads."""
        return {
            "type": "events",
            "dates": [event.isoformat() for event in self._events],
            "restrict_to_events": self._restrict_to_events,
            "description": self._description,
        }

    @property
    def summary(self) -> str:
        """How a person would write it."""
        return self._description or f"{len(self._events)} dates"


def _event(date: object) -> datetime:
    try:
        return as_utc(check_type(date, datetime, "each of event_dates"))
    except OverflowError:
        raise DagError(f"The event date {date} is in UTC beyond the years 1 to 9999 of the calendar.") from None
