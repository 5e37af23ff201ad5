"""What a stored DAG says about its runs: paused or not, and which run is next."""

from collections.abc import Callable
from datetime import UTC, datetime

import psycopg
import pytest

from tests.integration.processor.conftest import Database, Folder
from turnout.metadata.wakeups import CHANNEL
from turnout.scheduler.processor.service import DagProcessor

CATCHUP = "schedule={schedule!r}, start_date=datetime(2013, 1, 1), catchup=True"


def write(folder: Folder, arguments: str) -> None:
    folder.write(
        "a.py", f"from datetime import datetime\nwith DAG('a', {arguments}):\n    EmptyOperator(task_id='t')\n"
    )


def next_run(database: Database) -> tuple[datetime, ...]:
    (row,) = database.rows("SELECT next_logical_date, next_interval_start, next_interval_end, next_run_after FROM dag")
    return tuple(row)


def insert_run(database: Database, run_type: str, day: int) -> None:
    database.execute(
        "INSERT INTO dag_run (dag_id, run_id, run_type, logical_date, data_interval_start, data_interval_end) "
        "VALUES ('a', CAST(:day AS text), :run_type, :start, :start, :end)",
        day=day,
        run_type=run_type,
        start=datetime(2013, 1, day, tzinfo=UTC),
        end=datetime(2013, 1, day + 1, tzinfo=UTC),
    )


def test_a_new_dag_gets_its_first_run_planned(folder: Folder, processor: DagProcessor, database: Database) -> None:
    write(folder, CATCHUP.format(schedule="@daily"))
    processor.run_once()

    first, second = datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 2, tzinfo=UTC)
    assert next_run(database) == (first, first, second, second)


def test_a_dag_without_a_schedule_has_no_next_run(folder: Folder, processor: DagProcessor, database: Database) -> None:
    write(folder, "schedule='@daily'")
    processor.run_once()
    write(folder, "schedule=None")
    processor.run_once()

    assert next_run(database) == (None, None, None, None)


def test_a_new_schedule_goes_on_from_the_last_scheduled_run(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    write(folder, CATCHUP.format(schedule="@daily"))
    processor.run_once()
    insert_run(database, "scheduled", 4)
    insert_run(database, "manual", 20)
    write(folder, CATCHUP.format(schedule="@hourly"))
    processor.run_once()

    start, end = datetime(2013, 1, 5, 0, tzinfo=UTC), datetime(2013, 1, 5, 1, tzinfo=UTC)
    assert next_run(database) == (start, start, end, end)


def test_other_changes_leave_the_next_run_to_the_schedulers(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    write(folder, CATCHUP.format(schedule="@daily"))
    processor.run_once()
    database.execute("UPDATE dag SET next_run_after = '2030-01-01Z'")
    write(folder, CATCHUP.format(schedule="@daily") + ", tags=['new']")
    processor.run_once()

    assert next_run(database)[3] == datetime(2030, 1, 1, tzinfo=UTC)


def test_a_dag_that_comes_back_is_planned_anew(folder: Folder, processor: DagProcessor, database: Database) -> None:
    write(folder, "schedule='@daily'")
    processor.run_once()
    (folder.path / "a.py").unlink()
    processor.run_once()
    database.execute("UPDATE dag SET next_run_after = '2013-01-01Z'")
    write(folder, "schedule='@daily'")
    processor.run_once()

    assert next_run(database)[3] > datetime(2013, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("setting", "said", "paused"),
    [(True, "None", True), (False, "None", False), (True, "False", False), (False, "True", True)],
)
def test_a_new_dag_is_paused_as_it_says_or_else_as_the_settings_say(
    folder: Folder,
    make_processor: Callable[..., DagProcessor],
    database: Database,
    *,
    setting: bool,
    said: str,
    paused: bool,
) -> None:
    write(folder, f"schedule=None, is_paused_upon_creation={said}")
    make_processor(dags_are_paused_at_creation=setting).run_once()

    assert database.rows("SELECT is_paused FROM dag") == [(paused,)]


def test_what_a_person_paused_stays_paused(folder: Folder, processor: DagProcessor, database: Database) -> None:
    write(folder, "schedule=None, is_paused_upon_creation=False")
    processor.run_once()
    database.execute("UPDATE dag SET is_paused = true")
    write(folder, "schedule='@daily', is_paused_upon_creation=False")
    processor.run_once()

    assert database.rows("SELECT is_paused FROM dag") == [(True,)]


def test_schedulers_are_woken_by_what_concerns_them_only(
    folder: Folder, processor: DagProcessor, database_url: str
) -> None:
    with psycopg.connect(database_url, autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")

        def heard() -> int:
            return len(list(listener.notifies(timeout=0.2)))

        folder.write_dag("a.py", "a", tail="DAG('b', schedule=None)\n")
        processor.run_once()
        assert heard() == 1
        folder.write_dag("a.py", "a", tail="DAG('b', schedule=None)  # the same\n")
        processor.run_once()
        assert heard() == 0
        folder.write_dag("a.py", "a", "schedule='@daily'", tail="DAG('b', schedule=None)\n")
        processor.run_once()
        assert heard() == 1
