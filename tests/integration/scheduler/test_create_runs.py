"""Step 1, create runs: what the timetables say, once, within the room that a DAG has."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import Engine, text

from tests.control import BATCH, Control, graph
from turnout.metadata.engine import transact
from turnout.scheduler.create_runs import create_due_runs

START = datetime(2013, 1, 1, tzinfo=UTC)


def schedule(control: Control, dag_id: str = "daily", **dag: Any) -> None:
    """Declare a DAG whose first run is due."""
    given = {"schedule": "@daily", "start_date": START, "catchup": True, **dag}
    control.declare(graph(dag_id, {"a": []}, **given))
    control.sql("UPDATE dag SET next_run_after = '2013-01-02' WHERE dag_id = :dag_id", dag_id=dag_id)


def logical_dates(control: Control) -> list[str]:
    return control.sql("SELECT to_char(logical_date, 'MM-DD') FROM dag_run ORDER BY logical_date")


def next_run(control: Control) -> Any:
    return control.sql("SELECT to_char(next_run_after, 'YYYY-MM-DD') FROM dag")[0]


def end_all_runs(control: Control) -> None:
    control.start()
    control.sql("UPDATE dag_run SET state = 'success' WHERE state = 'running'")


def test_catch_up_creates_no_more_runs_than_the_dag_has_room_for(control: Control) -> None:
    schedule(control, max_active_runs=2)
    assert control.create() == 2
    assert logical_dates(control) == ["01-01", "01-02"]
    assert next_run(control) == "2013-01-04"
    assert control.create() == 0
    end_all_runs(control)
    assert control.create() == 2
    assert logical_dates(control) == ["01-01", "01-02", "01-03", "01-04"]


def test_a_run_by_hand_takes_no_room_from_the_timetable(control: Control) -> None:
    schedule(control, max_active_runs=1)
    control.insert_run("daily", "by hand")
    assert control.create() == 1


def test_a_created_run_says_all_of_its_interval(control: Control) -> None:
    schedule(control, max_active_runs=1)
    control.create()
    (run,) = control.sql("""
        SELECT r.run_id, r.run_type, r.state, r.logical_date, r.data_interval_start, r.data_interval_end, r.run_after,
               r.dag_version_id = d.current_version_id
        FROM dag_run r JOIN dag d USING (dag_id)
    """)
    end = START + timedelta(days=1)
    assert run == ("scheduled__2013-01-01T00:00:00+00:00", "scheduled", "queued", START, START, end, end, True)


def test_the_last_interval_ends_the_timetable(control: Control) -> None:
    schedule(control, end_date=START + timedelta(days=2))
    control.create()
    assert logical_dates(control) == ["01-01", "01-02", "01-03"]
    assert next_run(control) is None


def test_without_catch_up_only_the_latest_interval_is_run(control: Control) -> None:
    schedule(control, catchup=False)
    assert control.create() == 1
    assert control.sql("SELECT now() - data_interval_end < interval '1 day' FROM dag_run") == [True]
    assert control.sql("SELECT next_run_after > now() FROM dag") == [True]
    assert control.create() == 0


@pytest.mark.parametrize("room", [1, 5])
def test_a_date_that_a_run_by_hand_has_taken_is_stepped_over(control: Control, room: int) -> None:
    schedule(control, max_active_runs=room)
    for day in (1, 2, 4):
        control.insert_run("daily", f"by hand {day}", logical_date=START + timedelta(days=day - 1))
    for _ in range(5):
        control.create()
        control.sql("UPDATE dag_run SET state = 'running' WHERE run_type = 'scheduled' AND state = 'queued'")
        control.sql("UPDATE dag_run SET state = 'success' WHERE run_type = 'scheduled' AND state = 'running'")
    scheduled = control.sql(
        "SELECT to_char(logical_date, 'DD') FROM dag_run WHERE run_type = 'scheduled' ORDER BY logical_date LIMIT 3"
    )
    assert scheduled == ["03", "05", "06"]


@pytest.mark.parametrize("column", ["is_paused = true", "is_active = false"])
def test_nothing_is_created_of_a_dag_that_is_paused_or_gone(control: Control, column: str) -> None:
    schedule(control)
    control.sql(f"UPDATE dag SET {column}")  # noqa: S608
    assert control.create() == 0


def test_a_timetable_that_cannot_be_computed_stops_its_own_dag_only(control: Control) -> None:
    schedule(control, "bad")
    schedule(control, "good", max_active_runs=1)
    control.sql(
        "UPDATE dag_version SET content = jsonb_set(content, '{schedule}', '{\"type\": \"moon\"}') WHERE dag_id = 'bad'"
    )
    assert control.create() == 1
    assert control.sql("SELECT dag_id FROM dag_run") == ["good"]
    assert control.sql("SELECT next_run_after FROM dag WHERE dag_id = 'bad'") == [None]


def test_a_dag_that_another_scheduler_holds_is_left_to_it(control: Control) -> None:
    schedule(control, "one", max_active_runs=1)
    schedule(control, "two", max_active_runs=1)
    with control.engine.begin() as other:
        other.execute(text("SELECT 1 FROM dag WHERE dag_id = 'one' FOR NO KEY UPDATE"))
        assert control.create() == 1
    assert control.create() == 1


@pytest.mark.parametrize("turn", range(5))
def test_two_schedulers_at_the_same_time_create_each_run_once(control: Control, engine: Engine, turn: int) -> None:
    for number in range(4):
        schedule(control, f"dag{turn}_{number}", max_active_runs=3)
    together = Barrier(2)

    def create(_: int) -> int:
        together.wait(10)
        return sum(transact(engine, lambda c: create_due_runs(c, BATCH)) for _ in range(3))

    with ThreadPoolExecutor(2) as threads:
        created = list(threads.map(create, range(2)))
    assert sum(created) == 12
    assert set(control.sql("SELECT count(*) FROM dag_run GROUP BY dag_id")) == {3}
