"""Time zones as names that survive serialization."""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from turnout.tasks.errors import DagError

_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")


def zone_name(zone: tzinfo | None) -> str:
    """Name a time zone: its IANA key, `UTC`, or a fixed offset such as `+05:30`. None is UTC.

    Raises:
        DagError: the zone has no name that another process could look up.
    """
    if zone is None or zone is UTC:
        return "UTC"
    # ZoneInfo and pendulum have `key`, pytz has `zone`.
    key = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if isinstance(key, str):
        return zone_key(key)
    # Only a zone that is the same all year knows its offset without a date.
    offset = zone.utcoffset(None)
    if offset is not None and offset % timedelta(minutes=1) == timedelta(0):
        return _offset_name(offset)
    raise DagError(f'The time zone {zone!r} has no name: use zoneinfo.ZoneInfo("Area/City") or datetime.UTC.')


def zone_key(key: str) -> str:
    """Return the name of a zone that exists.

    Raises:
        DagError: there is no such zone.
    """
    zone_of(key)
    return key


def zone_of(name: str) -> tzinfo:
    """Look up a time zone by the name that `zone_name` gave it.

    Raises:
        DagError: there is no such zone.
    """
    if name == "UTC":
        return UTC
    if match := _OFFSET.fullmatch(name):
        sign, hours, minutes = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise DagError(f"There is no time zone {name!r}: use an IANA name such as Europe/Berlin.") from None


def as_utc(moment: datetime) -> datetime:
    """Return a moment in UTC; a naive one is taken as UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _offset_name(offset: timedelta) -> str:
    minutes = round(offset.total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
