"""What to say when something is not there: its name, the one that was probably meant, and where to look."""

import difflib
from collections.abc import Iterable

from turnout.metadata.errors import NotFoundError


def no_such(what: str, name: str, known: Iterable[str], look: str) -> NotFoundError:
    """Make the error for a name that nothing bears.

    Args:
        what: the kind of thing, for example `DAG`.
        name: the name that was asked for.
        known: the names that exist.
        look: what to do next when no name is near.
    """
    near = near_name(name, known)
    hint = f"Did you mean {near}?" if near else look
    return NotFoundError(f"There is no {what} {name}. {hint}")


def near_name(name: str, known: Iterable[str]) -> str | None:
    """Find the name that was probably meant."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return near[0] if near else None
