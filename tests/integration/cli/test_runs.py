"""`turnout runs`: what is listed, shown and waited for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine

from turnout.metadata.engine import transact
from turnout.metadata.runs import finish_running
from turnout.metadata.states import RunState

Turnout = Callable[..., Any]


@pytest.fixture
def two_runs(turnout: Turnout, orders: Path) -> None:  # noqa: ARG001  the DAGs must be there
    turnout("dags", "trigger", "by_hand", "--run-id", "first")
    turnout("dags", "trigger", "orders_daily", "--run-id", "second", "--logical-date", "2024-05-06")


def end(engine: Engine, run_id: str, state: RunState) -> None:
    """End a run as a scheduler does once its tasks have ended."""

    def work(connection: Connection) -> None:
        connection.exec_driver_sql(
            "UPDATE dag_run SET state = 'running', started_at = now() WHERE run_id = %s", (run_id,)
        )
        key = connection.exec_driver_sql("SELECT id FROM dag_run WHERE run_id = %s", (run_id,)).scalar_one()
        assert finish_running(connection, {key: state})

    transact(engine, work)


@pytest.mark.usefixtures("two_runs")
def test_runs_are_listed_the_newest_first(turnout: Turnout) -> None:
    assert [run["dag_run_id"] for run in turnout("runs", "list", "-o", "json").json] == ["second", "first"]
    assert [run["dag_run_id"] for run in turnout("runs", "list", "by_hand", "-o", "json").json] == ["first"]


@pytest.mark.usefixtures("two_runs")
def test_runs_are_listed_by_state(turnout: Turnout, engine: Engine) -> None:
    end(engine, "first", RunState.FAILED)
    assert [run["dag_run_id"] for run in turnout("runs", "list", "--state", "failed", "-o", "json").json] == ["first"]


@pytest.mark.usefixtures("orders")
def test_a_dag_without_runs_has_an_empty_list(turnout: Turnout) -> None:
    ran = turnout("runs", "list", "by_hand")
    assert (ran.code, ran.out, ran.err) == (0, "", "No runs.\n")
    assert turnout("runs", "list", "--state", "failed").err == "No runs in state failed.\n"
    assert turnout("dags", "list", "--tag", "none").err == "No such DAGs: `turnout dags list` lists all.\n"


@pytest.mark.usefixtures("two_runs")
def test_a_run_has_the_keys_of_the_public_api(turnout: Turnout) -> None:
    run = turnout("runs", "show", "orders_daily", "second", "-o", "json").json
    assert (run["dag_id"], run["dag_run_id"], run["state"], run["run_type"]) == (
        "orders_daily",
        "second",
        "queued",
        "manual",
    )
    assert run["logical_date"] == run["data_interval_start"] == "2024-05-06T00:00:00Z"
    assert run["queued_at"].endswith("Z")
    assert (run["start_date"], run["end_date"], run["duration"]) == (None, None, None)
    assert [version["version_number"] for version in run["dag_versions"]] == [1]


@pytest.mark.usefixtures("two_runs")
def test_a_run_is_shown_to_a_person_in_utc(turnout: Turnout) -> None:
    lines = turnout("runs", "show", "orders_daily", "second").out.splitlines()
    assert "logical_date         2024-05-06T00:00:00Z" in lines
    assert "end_date             -" in lines
    assert "dag_versions         1" in lines


@pytest.mark.usefixtures("two_runs")
def test_a_near_run_id_is_suggested(turnout: Turnout) -> None:
    assert "Did you mean second?" in turnout("runs", "show", "orders_daily", "secnd").err


@pytest.mark.parametrize(("state", "code"), [(RunState.SUCCESS, 0), (RunState.FAILED, 1)])
@pytest.mark.usefixtures("two_runs")
def test_waiting_ends_with_the_run(turnout: Turnout, engine: Engine, state: RunState, code: int) -> None:
    end(engine, "first", state)
    ran = turnout("runs", "wait", "by_hand", "first", "-o", "json")
    assert (ran.code, ran.json["state"]) == (code, state)


@pytest.mark.usefixtures("two_runs")
def test_waiting_ends_with_3_when_time_is_up(turnout: Turnout) -> None:
    ran = turnout("runs", "wait", "by_hand", "first", "--timeout", "0.2")
    assert ran.code == 3
    assert ran.err == "Run first of DAG by_hand is still queued after 0.2 s.\n"


@pytest.mark.usefixtures("two_runs")
def test_a_run_that_failed_says_where_to_look(turnout: Turnout, engine: Engine) -> None:
    end(engine, "first", RunState.FAILED)
    err = turnout("runs", "wait", "by_hand", "first").err
    assert err == "Run first of DAG by_hand failed: see `turnout tasks list by_hand first --state failed`.\n"


@pytest.mark.usefixtures("orders")
def test_a_trigger_may_wait_for_its_run(turnout: Turnout, engine: Engine) -> None:
    # The run ends as it is created, so that the test need not race the command.
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE FUNCTION end_it() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN NEW.state := 'failed'; RETURN NEW; END $$"
        )
        connection.exec_driver_sql("CREATE TRIGGER t BEFORE INSERT ON dag_run FOR EACH ROW EXECUTE FUNCTION end_it()")
    ran = turnout("dags", "trigger", "by_hand", "--wait", "-o", "json")
    assert (ran.code, ran.json["state"]) == (1, "failed")
