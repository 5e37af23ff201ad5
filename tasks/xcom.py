"""How the result of a task travels to others: as JSON text."""

import json
import math
from typing import Any, Protocol

from turnout.tasks.errors import XComError

#: The key under which a task's return value is kept, as in Airflow.
RETURN_VALUE = "return_value"

#: Default of the setting `xcom.max_bytes`.
MAX_BYTES = 262_144

_NOT_JSON = "which JSON cannot hold: use JSON values (dict, list, str, int, float, bool, None)."


class NotPushed:
    """Stands for a value that no task has pushed, where None would be ambiguous."""


class XComReader(Protocol):
    """Where a running task gets the results of others from."""

    def pull(self, dag_id: str, run_id: str, task_id: str, key: str, map_index: int) -> Any:
        """Return a value.

        Raises:
            LookupError: no such value was pushed.
        """


def encode(value: Any, max_bytes: int = MAX_BYTES) -> str:
    """Write a value as JSON that PostgreSQL can keep.

    Args:
        value: what a task returned.
        max_bytes: the largest size of the text, in bytes of UTF-8.

    Raises:
        XComError: it is not JSON, or too large; the message says where and what to do.
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError):
        raise XComError(complain(value, "the result") or f"The result is {type(value).__name__}, {_NOT_JSON}") from None
    if "\\u0000" in text and (complaint := complain(value, "the result")):
        raise XComError(complaint)
    if size > max_bytes:
        raise XComError(
            f"The result is {size:,} bytes as JSON, over the limit of {max_bytes:,} (setting xcom.max_bytes): "
            "store it elsewhere and return where it is, such as a path."
        )
    return text


def complain(value: Any, name: str) -> str | None:
    """Say where in a value something is that JSON in PostgreSQL cannot hold, and what to do; None when all is well.

    Args:
        value: the value.
        name: what to call it.
    """
    try:
        found = _find_unstorable(value, name, set())
    except RecursionError:
        found = f"{name} is nested too deeply."
    return found and f"{found[0].upper()}{found[1:]}"


def _find_unstorable(value: Any, place: str, above: set[int]) -> str | None:
    """Say where in a value something is that JSON in PostgreSQL cannot hold."""
    if isinstance(value, dict | list | tuple):
        return _find_inside(value, place, above)
    if isinstance(value, str):
        return _unstorable_text(value, place)
    if isinstance(value, float) and not math.isfinite(value):
        return f"{place} is {value}, {_NOT_JSON}"
    if isinstance(value, int | float | None):
        return None
    return f"{place} is {type(value).__name__}, {_NOT_JSON}"


def _find_inside(value: Any, place: str, above: set[int]) -> str | None:
    if id(value) in above:
        return f"{place} contains itself."
    if odd := [key for key in value if isinstance(value, dict) and not isinstance(key, str | int | float | None)]:
        return f"{place} has the key {odd[0]!r}, {_NOT_JSON}"
    found = (_find_unstorable(item, where, above | {id(value)}) for where, item in _items(value, place))
    return next(filter(None, found), None)


def _items(value: Any, place: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        keys = [(f"a key of {place}", key) for key in value]
        return keys + [(f"{place}[{key!r}]", item) for key, item in value.items()]
    return [(f"{place}[{index}]", item) for index, item in enumerate(value)]


def _unstorable_text(value: str, place: str) -> str | None:
    if "\x00" in value:
        return f"{place} contains the character NUL, which PostgreSQL cannot hold: remove it."
    try:
        value.encode()
    except UnicodeEncodeError:
        return f"{place} contains half of a surrogate pair, which UTF-8 cannot hold: remove it."
    return None
