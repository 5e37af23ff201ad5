"""Checks of what authors give to timetables."""

from datetime import timedelta

from turnout.tasks.errors import DagError
from turnout.tasks.values import as_duration, check_type


def check_length(delta: object, name: str) -> timedelta:
    """Return a length of time above zero.

    Raises:
        DagError: it is something else.
    """
    if check_type(delta, timedelta, name) <= timedelta(0):
        raise DagError(f"{name}={delta!r} is not a length of time above zero.")
    return as_duration(delta, name)
