"""Timetables of authors' own: their code runs in the child that parses their file, schedulers read what it planned."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.control import Control
from tests.integration.processor.conftest import Database, Folder
from turnout.metadata import pausing
from turnout.metadata.listings.upcoming import preview_unpausing
from turnout.metadata.plans import LEAST_PLANNED
from turnout.scheduler.processor.service import DagProcessor
from turnout.tasks.timetables.ahead import PLANNED_RUNS

NOW = datetime.now(UTC)
TODAY = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
START = TODAY - timedelta(days=20)

TIMETABLE = """
from datetime import datetime, timedelta, UTC
from turnout.tasks import DagRunInfo, Timetable
from turnout.tasks.timetables import DataInterval

class EveryOtherDay(Timetable):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        {first}
        begin = last_automated_data_interval.end if last_automated_data_interval else restriction.earliest
        if restriction.latest and begin > restriction.latest:
            return None
        return DagRunInfo.interval(begin, begin + timedelta(days=2))

with DAG("own", schedule=EveryOtherDay(), start_date=datetime.fromisoformat({start!r}), {more}):
    EmptyOperator(task_id="t")
"""


def write(folder: Folder, first: str = "pass", more: str = "catchup=True", name: str = "own.py") -> None:
    folder.write(name, TIMETABLE.format(first=first, start=START.isoformat(), more=more))


def planned(database: Database) -> list[tuple[datetime, datetime, datetime]]:
    return database.rows("SELECT interval_start, interval_end, run_after FROM planned_run ORDER BY 1")


def next_run(database: Database) -> Any:
    return database.rows("SELECT next_logical_date, next_run_after, plan_is_open FROM dag WHERE dag_id = 'own'")[0]


def test_the_next_runs_are_planned_ahead_and_a_scheduler_creates_them(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    write(folder)
    processor.run_once()
    runs = planned(database)
    assert len(runs) >= PLANNED_RUNS
    assert runs[0] == (START, START + timedelta(days=2), START + timedelta(days=2))
    assert next_run(database) == (START, START + timedelta(days=2), True)
    control = Control(database.engine)
    foreseen = control.do(lambda c: preview_unpausing(c, "own", 100)).rows
    control.do(lambda c: pausing.set_paused(c, "own", paused=False, actor="test"))
    assert control.create() == 10
    created = control.sql("SELECT logical_date FROM dag_run ORDER BY 1")
    assert created == [run.logical_date for run in foreseen] == [START + timedelta(days=2 * day) for day in range(10)]
    assert next_run(database)[0] == TODAY
    assert control.create() == 0


@pytest.mark.parametrize(
    ("policy", "dates"),
    [("none", []), ("latest", [TODAY - timedelta(days=2)]), ("coalesce", [START]), ("all", list(range(10)))],
)
def test_policies_for_missed_runs_hold_for_own_timetables(
    folder: Folder, processor: DagProcessor, database: Database, policy: str, dates: list[Any]
) -> None:
    write(folder, more=f"catchup={policy!r}")
    processor.run_once()
    control = Control(database.engine)
    control.do(lambda c: pausing.set_paused(c, "own", paused=False, actor="test"))
    control.create()
    created = control.sql("SELECT logical_date, data_interval_end FROM dag_run ORDER BY 1")
    assert len(created) == len(dates)
    if policy in {"latest", "coalesce"}:
        assert created == [(dates[0], TODAY)]


def test_a_plan_goes_on_from_the_last_scheduled_run(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    write(folder)
    processor.run_once()
    end = START + timedelta(days=7)
    database.execute(
        "INSERT INTO dag_run (dag_id, run_id, run_type, logical_date, data_interval_start, data_interval_end)"
        " VALUES ('own', 's', 'scheduled', :start, :start, :end)",
        start=end - timedelta(days=2),
        end=end,
    )
    write(folder, more="catchup=True, tags=['new']")
    processor.run_once()
    assert planned(database)[0][0] == end
    assert next_run(database)[0] == end


def test_a_plan_that_runs_low_is_made_anew_and_one_that_is_complete_is_not(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    write(folder)
    processor.run_once()
    assert processor.run_once().parsed == []
    database.execute(
        "DELETE FROM planned_run WHERE interval_start > (SELECT interval_start FROM planned_run ORDER BY 1 OFFSET :n"
        " LIMIT 1)",
        n=LEAST_PLANNED - 2,
    )
    assert processor.run_once().parsed == ["own.py"]
    assert len(planned(database)) >= PLANNED_RUNS
    end = TODAY + timedelta(days=4)
    write(folder, more=f"catchup=True, end_date=datetime.fromisoformat({end.isoformat()!r})")
    processor.run_once()
    assert len(planned(database)) < LEAST_PLANNED
    assert next_run(database)[2] is False
    assert processor.run_once().parsed == []


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("raise ValueError('new moon')", "DAG 'own': its timetable EveryOtherDay raised ValueError: new moon"),
        ("raise SystemExit(3)", "its timetable EveryOtherDay raised SystemExit: 3"),
        ("return datetime.now()", "answers with datetime.datetime.*: return a DagRunInfo, or None"),
        ("return DagRunInfo('x', None)", "answers with DagRunInfo.*: return DagRunInfo\\(run_after, DataInterval"),
        ("return DagRunInfo.exact('x')", "of three datetimes with a time zone"),
        ("return DagRunInfo.exact(datetime(2030, 1, 1))", "answers with moments without a time zone"),
        ("return DagRunInfo.exact(restriction.earliest)", "each data interval must start later than the one before"),
        (
            (
                "at = restriction.earliest; last = last_automated_data_interval or DataInterval.exact(at); "
                "return DagRunInfo.interval(at, last.end + timedelta(hours=1))"
            ),
            r"each data interval must start later than the one before \(its start is the logical date\)",
        ),
        ("at = restriction.earliest; return DagRunInfo.interval(at, at - timedelta(hours=1))", "ends before it starts"),
    ],
)
def test_a_timetable_that_fails_is_an_import_error_of_its_file_only(
    folder: Folder, processor: DagProcessor, database: Database, first: str, words: str
) -> None:
    folder.write_dag("good.py", "good")
    write(folder)
    processor.run_once()
    before = planned(database)
    write(folder, first)
    processor.run_once()
    [(line, message)] = database.errors().values()
    assert re.search(words, message)
    assert line == 15
    assert database.active() == ["good", "own"]
    assert planned(database) == before


def test_a_timetable_that_hangs_is_stopped_with_its_file(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    folder.write_dag("good.py", "good")
    write(folder, "while True: pass")
    processor.run_once()
    assert "takes longer than 5 s to import and was stopped" in database.errors()["own.py"][1]
    assert database.active() == ["good"]


def test_nothing_is_planned_ahead_for_a_timetable_that_schedulers_can_compute(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    write(folder)
    processor.run_once()
    folder.write("own.py", "with DAG('own', schedule='@daily'):\n    EmptyOperator(task_id='t')\n")
    processor.run_once()
    assert planned(database) == []
    assert next_run(database)[2] is False
