"""How rows are printed."""

import os
import pty
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from turnout.cli.output import cell, iso, print_table, show_json

LONG = "scheduled__2013-01-01T00:00:00+00:00"
PRINT_LONG = f"""
from turnout.cli.output import print_table
print_table(("dag_run_id", "state", "error"), [("{LONG}", "failed", "exit code 3 of a long story")])
"""


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


@pytest.mark.parametrize("columns", ["30", "60"])
def test_a_narrow_terminal_loses_nothing(columns: str) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": columns, "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", PRINT_LONG], stdout=theirs, env=environment, check=True)
    os.close(theirs)
    said = os.read(ours, 100_000).decode()
    os.close(ours)
    lines = re.sub(r"\x1b\[[\d;]*m", "", said).splitlines()
    assert max(map(len, lines)) <= int(columns)
    first_column = "".join(line[: lines[0].index("state")].strip() for line in lines[1:])
    assert first_column == LONG
