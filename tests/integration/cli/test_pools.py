"""`turnout pools`."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine

Turnout = Callable[..., Any]


def names(turnout: Turnout) -> Any:
    return [pool["name"] for pool in turnout("pools", "list", "-o", "json").json]


def test_a_pool_is_made_changed_and_deleted(turnout: Turnout) -> None:
    assert turnout("pools", "set", "etl", "4", "--description", "Loads").out == "Pool etl made: 4 slots.\n"
    assert turnout("pools", "set", "etl", "1").out == "Pool etl changed: 1 slot.\n"
    etl = turnout("pools", "list", "-o", "json").json[1]
    assert (etl["name"], etl["slots"], etl["description"], etl["include_deferred"]) == ("etl", 1, "Loads", False)
    assert turnout("pools", "delete", "etl").out == "Pool etl deleted.\n"
    assert names(turnout) == ["default_pool"]


@pytest.mark.usefixtures("orders")
def test_a_pool_shows_how_its_slots_are_used(turnout: Turnout, control_plane: Any) -> None:
    turnout("dags", "trigger", "orders_daily")
    control_plane.start()
    control_plane.queue("extract")
    [pool] = turnout("pools", "list", "-o", "json").json
    assert (pool["queued_slots"], pool["occupied_slots"], pool["open_slots"]) == (1, 1, 127)
    assert (pool["running_slots"], pool["scheduled_slots"]) == (0, 0)


def test_the_default_pool_stays(turnout: Turnout) -> None:
    ran = turnout("pools", "delete", "default_pool")
    assert ran.code == 1
    assert "cannot be deleted" in ran.err


@pytest.mark.usefixtures("orders")
def test_a_pool_that_a_dag_names_stays(turnout: Turnout, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE dag_version SET content = jsonb_set(content, '{tasks,only,pool}', to_jsonb('etl'::text))"
            " WHERE dag_id = 'by_hand'"
        )
    turnout("pools", "set", "etl", "1")
    ran = turnout("pools", "delete", "etl")
    assert ran.code == 1
    assert ran.err == "Error: Pool etl is named by tasks of by_hand: change these DAGs first.\n"
    assert "etl" in names(turnout)


@pytest.mark.usefixtures("orders")
def test_a_pool_that_an_unfinished_task_needs_stays(turnout: Turnout, control_plane: Any, engine: Engine) -> None:
    turnout("pools", "set", "etl", "1")
    turnout("dags", "trigger", "by_hand")
    control_plane.start()
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE task_instance SET pool = 'etl'")
    ran = turnout("pools", "delete", "etl")
    assert ran.code == 1
    assert "needed by 1 unfinished task instances" in ran.err
    assert "etl" in names(turnout)


def test_a_pool_has_a_name_and_a_number_of_slots(turnout: Turnout) -> None:
    assert turnout("pools", "set", "etl", "-1").code == 2
    assert turnout("pools", "set", "etl", "many").code == 2
    ran = turnout("pools", "set", "no spaces", "1")
    assert ran.code == 1
    assert "rename it" in ran.err
    ran = turnout("pools", "set", "a.b", "1")
    assert ran.code == 2
    assert "cannot have a dot" in ran.err


def test_a_pool_has_a_rate_until_it_is_taken_away(turnout: Turnout) -> None:
    def rate() -> tuple[Any, Any]:
        etl = turnout("pools", "list", "-o", "json").json[1]
        return etl["rate_starts"], etl["rate_period_s"]

    turnout("pools", "set", "etl", "4", "--rate", "100/12h")
    assert rate() == (100, 12 * 3600)
    turnout("pools", "set", "etl", "5")
    assert rate() == (100, 12 * 3600)
    turnout("pools", "set", "etl", "5", "--rate", "5/s")
    assert rate() == (5, 1)
    turnout("pools", "set", "etl", "5", "--rate", "none")
    assert rate() == (None, None)


@pytest.mark.parametrize("rate", ["60", "0/m", "60/0m", "60/y", "-1/m", "60/m "])
def test_a_rate_that_is_none_is_refused_with_an_example(turnout: Turnout, rate: str) -> None:
    ran = turnout("pools", "set", "etl", "4", f"--rate={rate}")
    assert ran.code == 2
    assert "60/m" in ran.err
    assert names(turnout) == ["default_pool"]


def test_the_audit_log_tells_what_a_pool_was_set_to(turnout: Turnout, engine: Engine) -> None:
    turnout("pools", "set", "etl", "4", "--rate", "5/s")
    turnout("pools", "set", "etl", "3", "--include-deferred")
    with engine.begin() as connection:
        found = connection.exec_driver_sql("SELECT detail FROM audit_log ORDER BY id").scalars().all()
    rate = {"rate_starts": 5, "rate_period_s": 1}
    assert found == [
        {"pool": "etl", "slots": 4, "include_deferred": False, **rate},
        {"pool": "etl", "slots": 3, "include_deferred": True, **rate},
    ]
