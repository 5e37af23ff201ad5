"""The dates between which a DAG runs."""

import contextlib
from datetime import MAXYEAR, datetime

from turnout.tasks.errors import DagError
from turnout.tasks.zones import as_utc, zone_name

#: Timetables count on from a moment, by up to a century at a time, and Python's calendar has the years 1 to 9999.
EARLIEST_YEAR, LATEST_YEAR = 1000, 9000


def check_dates(start: object, end: object) -> tuple[datetime | None, datetime | None]:
    """Return start and end date in UTC.

    Raises:
        DagError: one is no fixed date, the end is before the start, or one is too near to the ends of the calendar.
    """
    first = _check_date(start, "start_date", LATEST_YEAR)
    last = _check_date(end, "end_date", MAXYEAR + 1)  # nothing is counted on from it; the year 9999 stands for never
    if first is not None and last is not None and last < first:
        raise DagError(f"end_date {last:%Y-%m-%d %H:%M} is before start_date {first:%Y-%m-%d %H:%M} (UTC): swap them.")
    return first, last


def _check_date(value: object, name: str, before: int) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise DagError(f"{name} must be a datetime such as datetime(2026, 1, 31), not {value!r}.")
    if value.microsecond:
        # Every parse would give another date, hence another version of the DAG, and schedules would never settle.
        raise DagError(f"{name} {value} looks like datetime.now(): write a fixed date such as datetime(2026, 1, 31).")
    zone_name(value.tzinfo)
    return check_year(value, name, before)


def check_year(value: datetime, name: str, before: int = LATEST_YEAR) -> datetime:
    """Return a moment in UTC that leaves room on the calendar for what is computed from it.

    Args:
        value: the moment.
        name: what it is, for the message.
        before: the first year that is too late.

    Raises:
        DagError: it is too near to the first or the last day of the calendar.
    """
    if EARLIEST_YEAR <= value.year < before:
        with contextlib.suppress(OverflowError):  # the last hours of the calendar, west of Greenwich
            return as_utc(value)
    raise DagError(f"{name} {value} must be in the years {EARLIEST_YEAR} to {before - 1} (UTC).")
