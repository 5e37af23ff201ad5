"""How rows are printed."""

import os
import pty
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from turnout.cli.options import Output
from turnout.cli.output import cell, iso, print_table, show_json, show_page
from turnout.metadata.listings.page import Page

LONG = "scheduled__2013-01-01T00:00:00+00:00"
PRINT_LONG = f"""
from datetime import datetime, UTC
from turnout.cli.output import print_table
print_table(
    ("dag_run_id", "map_index", "start_date", "error"),
    [
        ("{LONG}", 3, datetime(2013, 1, 2, 3, 4, 5, tzinfo=UTC), "exit code 3 of a long story"),
        ("short", 4, None, None),
    ],
)
"""


@dataclass(frozen=True)
class Failure:
    """A row of a listing."""

    task_id: str
    error: str


def test_moments_are_iso_8601_in_utc() -> None:
    moment = datetime(2024, 1, 2, 3, 4, 5, 6000, timezone(timedelta(hours=2)))
    assert iso(moment) == "2024-01-02T01:04:05.006000Z"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "-"),
        ([], "-"),
        (0, "0"),
        (False, "no"),
        (True, "yes"),
        (1.234, "1.23"),
        (["io", "gpu"], "io, gpu"),
        ({"a": 1}, '{"a": 1}'),
        (datetime(2024, 1, 2, 3, 4, 5, 6000, UTC), "2024-01-02T03:04:05Z"),
        ("[bold]as it is[/bold]", "[bold]as it is[/bold]"),
    ],
)
def test_a_cell_is_written_for_a_person(value: object, words: str) -> None:
    assert cell(value).plain == words


def test_json_keeps_what_json_has_and_writes_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"at": datetime(2024, 1, 1, tzinfo=UTC), "id": UUID(int=1), "n": None, "name": "é"})
    out = capsys.readouterr().out
    assert '"at": "2024-01-01T00:00:00Z"' in out
    assert '"id": "00000000-0000-0000-0000-000000000001"' in out
    assert '"n": null' in out
    assert "é" in out


def test_a_table_in_a_pipe_has_one_line_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "error"), [("a", "x" * 500), ("b", "[red]y[/red]")])
    header, first, second = capsys.readouterr().out.splitlines()
    assert header == "name  error"
    assert first == f"a     {'x' * 500}"
    assert second == "b     [red]y[/red]"


def on_a_terminal(columns: int) -> list[str]:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", PRINT_LONG], stdout=theirs, env=environment, check=True)
    os.close(theirs)
    said = os.read(ours, 100_000).decode()
    os.close(ours)
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", said).splitlines()]
    assert max(map(len, lines)) <= columns
    return lines


def test_a_narrow_terminal_breaks_between_words() -> None:
    assert on_a_terminal(84) == [
        "                                      map_",
        "dag_run_id                            index   start_date            error",
        f"{LONG}  3       2013-01-02T03:04:05Z  exit code 3 of a",
        "                                                                    long story",
        "short                                 4       -                     -",
    ]


def test_a_narrower_terminal_breaks_times_after_the_date() -> None:
    assert on_a_terminal(80) == [
        "dag_run_id                            map_index  start_date  error",
        f"{LONG}  3          2013-01-02  exit code 3 of a",
        "                                                 03:04:05Z   long story",
        "short                                 4          -           -",
    ]


def test_a_terminal_too_narrow_for_a_table_has_a_block_for_every_row() -> None:
    assert on_a_terminal(40) == [
        "dag_run_id  scheduled__2013-01-01T00:00:",
        "            00+00:00",
        "map_index   3",
        "start_date  2013-01-02T03:04:05Z",
        "error       exit code 3 of a long story",
        "",
        "dag_run_id  short",
        "map_index   4",
        "start_date  -",
        "error       -",
    ]


def test_a_list_shows_the_beginning_of_a_long_error(capsys: pytest.CaptureFixture[str]) -> None:
    page = Page([Failure("train", "ValueError: " + "no " * 100)], is_cut=False)
    show_page(page, ("task_id", "error"), Output.TABLE, empty="")
    [_, row] = capsys.readouterr().out.splitlines()
    assert row.startswith("train    ValueError: no no")
    assert row.endswith("no …")
    assert len(row) < 100
    show_page(page, ("task_id", "error"), Output.JSON, empty="")
    assert "no " * 100 in capsys.readouterr().out
