"""What a day's departures are checked for, on a real day that is broken in one way after another."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from flights.archive import read_day
from flights.checks import find_faults
from flights.partition import replacing

DAY = date(2013, 1, 1)
Lines = list[str]


def landed(path: Path, break_it: Callable[[Lines], Lines]) -> list[str]:
    """Land the day, broken; return the faults found."""
    lines = break_it(list(read_day(DAY)))
    path.write_text("".join(lines))
    return find_faults(path, DAY, len(lines) - 1)


def test_a_good_day_has_no_faults(tmp_path: Path) -> None:
    assert landed(tmp_path / "day.csv", lambda lines: lines) == []


@pytest.mark.parametrize(
    ("break_it", "fault"),
    [
        (lambda lines: lines[:1], "the archive has no departures of that day"),
        (lambda lines: [line.replace("dep_delay", "late") for line in lines], "the columns dep_delay are missing"),
        (lambda lines: [*lines, lines[1].replace("2013,1,1,", "2013,1,2,")], "there are departures of 2013-01-02"),
        (lambda lines: [line.replace("LGA", "BOS") for line in lines], "BOS is no airport of New York"),
        (lambda lines: lines[:300], "JFK has only 95 departures"),
        (lambda lines: [*lines, lines[1]], "1 departures are there more than once, such as 515 UA 1545 EWR"),
        (lambda lines: [lines[0], lines[1].replace(",2,830,", ",2.5,830,"), *lines[2:]], "1 delays are no whole min"),
    ],
)
def test_each_fault_is_named(tmp_path: Path, break_it: Callable[[Lines], Lines], fault: str) -> None:
    found = landed(tmp_path / "day.csv", break_it)
    assert any(fault in words for words in found), found


def test_a_lost_line_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    path.write_text("".join(list(read_day(DAY))[:-1]))
    assert find_faults(path, DAY, 842) == ["842 departures were extracted, 841 are there"]


def test_a_partition_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    path.write_text("old")

    def fail_half_way() -> None:
        with replacing(path) as file:
            file.write("half")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        fail_half_way()
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("day.csv", "old")]
