"""A page of a listing: at most so many rows, and whether there are more."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

RowT = TypeVar("RowT")


@dataclass(frozen=True)
class Page(Generic[RowT]):
    """The first rows of a listing."""

    rows: list[RowT]
    is_cut: bool  # more rows exist than are shown


def first(rows: Iterable[RowT], limit: int) -> Page[RowT]:
    """Make a page of at most `limit` rows out of a result that was asked for `limit + 1`."""
    found = list(rows)
    return Page(found[:limit], is_cut=len(found) > limit)
