"""How commands print: tables for people, JSON for programs, on standard output; remarks on standard error."""

import dataclasses
import json
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from turnout.cli.options import Output
from turnout.cli.tables import lay_out_record, lay_out_table
from turnout.metadata.listings.page import Page

#: As much of a long text as tells which one it is; `-o json` has all of it.
_SHORT = 80
_SHORTENED = ("error", "value")

_COLOURS = {
    "success": "green",
    "alive": "green",
    "running": "cyan",
    "failed": "red",
    "dead": "red",
    "lost": "red",
    "upstream_failed": "yellow",
    "up_for_retry": "yellow",
}


def show_page(page: Page[Any], columns: Sequence[str], output: Output, *, empty: str) -> None:
    """Print a page of a listing, and say so when there is more.

    Args:
        page: rows that are dataclasses.
        columns: the fields that the table shows; JSON has them all.
        output: table or JSON.
        empty: what to say in place of an empty table.
    """
    if output is Output.JSON:
        show_json([plain(row) for row in page.rows])
    elif page.rows:
        _print_table(page.rows, columns)
    else:
        remark(empty)
    if page.is_cut:
        remark(f"Only the first {len(page.rows)} are shown: ask for more with --limit.")


def show_record(record: Mapping[str, Any], output: Output) -> None:
    """Print one thing: a line for every field, or a JSON object."""
    if output is Output.JSON:
        show_json(record)
        return
    _say_all(lay_out_record(list(record), list(map(cell, record.values()))))


def show_json(value: Any) -> None:
    """Print JSON, indented."""
    say(json.dumps(value, indent=2, default=_encode, ensure_ascii=False))


def say(line: str) -> None:
    """Print a line of the result."""
    print(line, flush=True)  # noqa: T201  this module is how commands print


def remark(line: str) -> None:
    """Print a line that is not part of the result, on standard error."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201  this module is how commands print


def plain(row: Any) -> dict[str, Any]:
    """Return a row as JSON values by name."""
    return dataclasses.asdict(row)


def iso(moment: datetime) -> str:
    """Write a moment in ISO 8601, UTC."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def cell(value: Any) -> Text:
    """Write a value for a person."""
    if value is None or value in ([], {}):
        return Text("-", style="dim")
    return Text(_words(value), style=_COLOURS.get(str(value), ""))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table that loses nothing on a narrow terminal."""
    _say_all(lay_out_table(columns, [list(map(cell, row)) for row in rows]))


def _print_table(rows: Iterable[Any], columns: Sequence[str]) -> None:
    print_table(columns, ([_shown(row, column) for column in columns] for row in rows))


def _shown(row: Any, column: str) -> Any:
    value = getattr(row, column)
    is_long = column in _SHORTENED and isinstance(value, str) and len(value) > _SHORT
    # A single long word would be left out as a whole.
    return textwrap.shorten(value, _SHORT, placeholder=" …") if is_long and " " in value[:_SHORT] else value


def _say_all(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def _words(value: Any) -> str:
    match value:
        case bool():
            words = "yes" if value else "no"
        case float():
            words = f"{value:.2f}"
        case datetime():
            words = iso(value.replace(microsecond=0))
        case list():
            words = ", ".join(map(_words, value))
        case dict():
            words = json.dumps(value, default=_encode, ensure_ascii=False)
        case _:
            words = str(value)
    return words


def _encode(value: Any) -> str:
    return iso(value) if isinstance(value, datetime) else str(value)
