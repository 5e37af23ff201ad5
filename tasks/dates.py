"""The dates between which a DAG runs."""

from datetime import datetime

from turnout.tasks.errors import DagError
from turnout.tasks.zones import as_utc, zone_name


def check_dates(start: object, end: object) -> tuple[datetime | None, datetime | None]:
    """Return start and end date in UTC.

    Raises:
        DagError: one is no fixed date, or the end is before the start.
    """
    first, last = _check_date(start, "start_date"), _check_date(end, "end_date")
    if first is not None and last is not None and last < first:
        raise DagError(f"end_date {last:%Y-%m-%d %H:%M} is before start_date {first:%Y-%m-%d %H:%M} (UTC): swap them.")
    return first, last


def _check_date(value: object, name: str) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise DagError(f"{name} must be a datetime such as datetime(2026, 1, 31), not {value!r}.")
    if value.microsecond:
        # Every parse would give another date, hence another version of the DAG, and schedules would never settle.
        raise DagError(f"{name} {value} looks like datetime.now(): write a fixed date such as datetime(2026, 1, 31).")
    zone_name(value.tzinfo)
    return as_utc(value)
