"""Ways to write a date, as template filters, and `macros`; names and formats are Airflow's."""

import json
import time
from datetime import UTC, datetime, timedelta
from functools import cache
from types import SimpleNamespace


def ds(moment: datetime) -> str:
    """Write a date as `2026-01-31`."""
    return moment.strftime("%Y-%m-%d")


def ds_nodash(moment: datetime) -> str:
    """Write a date as `20260131`."""
    return moment.strftime("%Y%m%d")


def ts(moment: datetime) -> str:
    """Write a moment as `2026-01-31T06:00:00+00:00`."""
    return moment.isoformat()


def ts_nodash(moment: datetime) -> str:
    """Write a moment as `20260131T060000`."""
    return moment.strftime("%Y%m%dT%H%M%S")


def ts_nodash_with_tz(moment: datetime) -> str:
    """Write a moment as `20260131T060000+0000`."""
    return moment.isoformat().replace("-", "").replace(":", "")


def ds_add(day: str, days: int) -> str:
    """Add days to a date that is written as `2026-01-31`."""
    return ds(datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC) + timedelta(days=days))


def ds_format(day: str, input_format: str, output_format: str) -> str:
    """Write a date in another format."""
    return datetime.strptime(day, input_format).replace(tzinfo=UTC).strftime(output_format)


FILTERS = {function.__name__: function for function in (ds, ds_nodash, ts, ts_nodash, ts_nodash_with_tz)}


@cache
def macros() -> SimpleNamespace:
    """Return what templates know as `macros`."""
    import uuid  # noqa: PLC0415 - it costs milliseconds that a DAG file need not pay

    return SimpleNamespace(
        datetime=datetime, timedelta=timedelta, time=time, uuid=uuid, json=json, ds_add=ds_add, ds_format=ds_format
    )
