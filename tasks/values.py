"""Checks of the values that authors give to DAGs and tasks."""

import difflib
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from turnout.tasks.errors import DagError

T = TypeVar("T")

#: The columns for counts are 32-bit integers; a DAG that does not fit would stop the schedulers that start its runs.
LARGEST_COUNT = 2**31 - 1
#: A century; PostgreSQL's dates and the timers of the operating system end at some point beyond it.
LONGEST_DURATION = timedelta(days=36_525)

#: Arguments of Airflow that do not exist here yet. Switched off they change nothing, so DAGs that say so load.
NOT_YET = frozenset(
    {
        "access_control",
        "deadline",
        "email",
        "email_on_failure",
        "email_on_retry",
        "executor",
        "executor_config",
        "ignore_first_depends_on_past",
        "inlets",
        "map_index_template",
        "outlets",
        "owner_links",
        "post_execute",
        "pre_execute",
        "resources",
        "run_as_user",
        "sla",
        "sla_miss_callback",
        "task_group",
    }
)


def refuse_unknown(given: Mapping[str, Any], known: Iterable[str], whose: str) -> None:
    """Refuse arguments that do not exist, with the nearest that does.

    Args:
        given: what was given.
        known: the names that exist.
        whose: what takes them, for the message.

    Raises:
        DagError: there is one.
    """
    known = set(known)
    for name, value in given.items():
        if name in known or (name in NOT_YET and not value):
            continue
        if name in NOT_YET:
            raise DagError(f"{whose} does not support {name!r} yet: remove it.")
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "remove it."
        raise DagError(f"{whose} has no argument {name!r}: {hint}")


def check_type(value: Any, expected: type[T], name: str) -> T:
    """Return a value of the expected type (a bool is no number).

    Raises:
        DagError: it is of another type.
    """
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        raise DagError(f"{name} must be {_article(expected)}, not {value!r} ({type(value).__name__}).")
    return value


def check_count(value: Any, name: str, least: int) -> int:
    """Return a whole number that is not too small, nor too large for the database.

    Raises:
        DagError: it is something else.
    """
    if check_type(value, int, name) < least:
        raise DagError(f"{name} must be at least {least}, not {value}.")
    if value > LARGEST_COUNT:
        raise DagError(f"{name} must be at most {LARGEST_COUNT}, not {value}.")
    return int(value)


def check_choice(value: Any, choices: Iterable[str], name: str) -> str:
    """Return a word that is among the choices.

    Raises:
        DagError: it is not.
    """
    choices = list(choices)
    if str(value) not in choices:
        raise DagError(f"{name} {str(value)!r} does not exist: use {' or '.join(map(repr, choices))}.")
    return str(value)


def as_duration(value: Any, name: str) -> timedelta:
    """Return a length of time, which may be given as `timedelta` or as seconds.

    Raises:
        DagError: it is something else, negative, or too long.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = timedelta(seconds=value) if abs(value) < LONGEST_DURATION.total_seconds() else timedelta.max
    if check_type(value, timedelta, name) < timedelta(0):
        raise DagError(f"{name} must not be negative, but is {value}.")
    if value > LONGEST_DURATION:
        raise DagError(f"{name} must be at most {LONGEST_DURATION.days} days.")
    return timedelta(seconds=value.total_seconds())


def _article(expected: type) -> str:
    words = {str: "a text", bool: "True or False", int: "a whole number", dict: "a dict", timedelta: "a timedelta"}
    return words.get(expected, f"a {expected.__name__}")
