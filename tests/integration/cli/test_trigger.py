"""`turnout dags trigger`: runs that people start."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine

from turnout.metadata import dags
from turnout.metadata.engine import transact

Turnout = Callable[..., Any]


def trigger(turnout: Turnout, *arguments: str) -> Any:
    return turnout("dags", "trigger", *arguments, "-o", "json")


@pytest.mark.usefixtures("orders")
def test_a_run_is_queued_under_an_id_made_of_its_date(turnout: Turnout) -> None:
    run = trigger(turnout, "by_hand").json
    assert (run["dag_id"], run["state"], run["run_type"], run["conf"]) == ("by_hand", "queued", "manual", {})
    assert run["dag_run_id"].startswith("manual__2")
    assert run["logical_date"] == run["run_after"] == run["data_interval_start"] == run["data_interval_end"]


@pytest.mark.usefixtures("orders")
def test_the_data_interval_is_the_latest_that_has_closed(turnout: Turnout) -> None:
    run = trigger(turnout, "orders_daily").json
    today = run["run_after"][:10]
    assert run["data_interval_end"] == f"{today}T00:00:00Z"
    assert run["data_interval_start"] < run["data_interval_end"]


@pytest.mark.usefixtures("orders")
def test_a_logical_date_of_the_timetable_gets_the_interval_of_its_scheduled_run(turnout: Turnout) -> None:
    run = trigger(turnout, "orders_daily", "--logical-date", "2024-05-06").json
    assert run["dag_run_id"] == "manual__2024-05-06T00:00:00+00:00"
    assert run["logical_date"] == run["data_interval_start"] == "2024-05-06T00:00:00Z"
    assert run["data_interval_end"] == "2024-05-07T00:00:00Z"


@pytest.mark.usefixtures("orders")
def test_a_logical_date_between_two_ticks_gets_the_interval_that_had_closed(turnout: Turnout) -> None:
    run = trigger(turnout, "orders_daily", "--logical-date", "2024-05-06T12:30:00+02:00").json
    assert run["logical_date"] == "2024-05-06T10:30:00Z"
    assert (run["data_interval_start"], run["data_interval_end"]) == ("2024-05-05T00:00:00Z", "2024-05-06T00:00:00Z")


@pytest.mark.usefixtures("orders")
def test_run_id_and_conf_are_those_that_were_given(turnout: Turnout) -> None:
    run = trigger(turnout, "by_hand", "--run-id", "again-1", "--conf", '{"limit": 7, "name": "é"}').json
    assert (run["dag_run_id"], run["conf"]) == ("again-1", {"limit": 7, "name": "é"})


@pytest.mark.parametrize("conf", ["[1]", "{", "null", '"x"'])
@pytest.mark.usefixtures("orders")
def test_a_conf_that_is_no_json_object_is_wrong_usage(turnout: Turnout, conf: str) -> None:
    ran = trigger(turnout, "by_hand", "--conf", conf)
    assert ran.code == 2
    assert "--conf" in ran.err


@pytest.mark.parametrize("run_id", ["..", "a/b", "a b", "", "x" * 251])
@pytest.mark.usefixtures("orders")
def test_a_run_id_that_is_no_name_is_wrong_usage(turnout: Turnout, run_id: str) -> None:
    ran = trigger(turnout, "by_hand", "--run-id", run_id)
    assert ran.code == 2
    assert ran.err.startswith("Error: A run id may hold only")


@pytest.mark.usefixtures("orders")
def test_a_logical_date_that_is_none_is_wrong_usage(turnout: Turnout) -> None:
    ran = trigger(turnout, "by_hand", "--logical-date", "yesterday")
    assert ran.code == 2
    assert "no ISO 8601 date" in ran.err


@pytest.mark.usefixtures("orders")
def test_a_run_id_is_given_once(turnout: Turnout) -> None:
    trigger(turnout, "by_hand", "--run-id", "r1")
    ran = trigger(turnout, "by_hand", "--run-id", "r1")
    assert ran.code == 1
    assert ran.err == "Error: DAG by_hand has a run r1 already (queued): choose another run id.\n"


@pytest.mark.usefixtures("orders")
def test_a_logical_date_is_given_once(turnout: Turnout) -> None:
    trigger(turnout, "by_hand", "--run-id", "r1", "--logical-date", "2024-01-01")
    ran = trigger(turnout, "by_hand", "--run-id", "r2", "--logical-date", "2024-01-01")
    assert ran.code == 1
    assert "DAG by_hand has a run for that logical date already: r1 (queued)." in ran.err


@pytest.mark.usefixtures("orders")
def test_a_paused_dag_says_that_the_run_waits_and_for_what(turnout: Turnout) -> None:
    turnout("dags", "pause", "by_hand")
    ran = trigger(turnout, "by_hand")
    assert ran.code == 0
    assert ran.err == "DAG by_hand is paused: the run waits until `turnout dags unpause by_hand`.\n"


@pytest.mark.usefixtures("orders")
def test_nobody_waits_for_a_run_of_a_paused_dag(turnout: Turnout) -> None:
    turnout("dags", "pause", "by_hand")
    ran = trigger(turnout, "by_hand", "--wait")
    assert ran.code == 2
    assert "`turnout dags unpause by_hand` first" in ran.err
    assert turnout("runs", "list", "by_hand", "-o", "json").json == []


@pytest.mark.usefixtures("orders")
def test_a_dag_whose_file_is_gone_cannot_be_triggered(turnout: Turnout, engine: Engine) -> None:
    transact(engine, lambda connection: dags.retire_file(connection, "orders.py"))
    ran = trigger(turnout, "by_hand")
    assert ran.code == 1
    assert ran.err == "Error: DAG by_hand is no longer declared by orders.py: it cannot run.\n"


@pytest.mark.usefixtures("orders")
def test_a_trigger_is_audited_and_wakes_the_schedulers(turnout: Turnout, engine: Engine) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql("LISTEN turnout_scheduler")
        connection.commit()
        trigger(turnout, "by_hand", "--run-id", "r1", "--conf", '{"a": 1}')
        assert list(connection.connection.driver_connection.notifies(timeout=5, stop_after=1))
        entry = connection.exec_driver_sql("SELECT action, dag_id, run_id, detail FROM audit_log").one()
    assert tuple(entry) == ("run.trigger", "by_hand", "r1", {"conf": {"a": 1}, "priority": 0})


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ('{"a": NaN}', "The conf['a'] is nan, which JSON cannot hold"),
        ('{"a": ["\\u0000"]}', "The conf['a'][0] contains the character NUL"),
        ('{"a": "\\ud800"}', "The conf['a'] contains half of a surrogate pair"),
    ],
)
@pytest.mark.usefixtures("orders")
def test_a_conf_that_the_database_cannot_hold_is_refused_with_its_place(
    turnout: Turnout, conf: str, words: str
) -> None:
    ran = trigger(turnout, "by_hand", "--conf", conf)
    assert ran.code == 2
    assert words in ran.err


@pytest.mark.parametrize("date", ["0001-01-01", "9999-12-31"])
@pytest.mark.usefixtures("orders")
def test_a_logical_date_at_the_end_of_the_calendar_is_refused(turnout: Turnout, date: str) -> None:
    ran = trigger(turnout, "orders_daily", "--logical-date", date)
    assert ran.code == 2
    assert "too near to the first or the last day of the calendar" in ran.err


@pytest.mark.usefixtures("orders")
def test_a_run_is_given_a_priority(turnout: Turnout) -> None:
    assert trigger(turnout, "by_hand", "--run-id", "urgent", "--priority", "7").json["priority"] == 7
    ran = turnout("dags", "trigger", "by_hand", "--priority", "1000001")
    assert ran.code == 2
    assert "A priority is a whole number from -1000000 to 1000000" in ran.err
