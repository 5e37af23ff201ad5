"""`turnout dags`: what is listed, shown, paused and previewed."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine

from turnout.metadata import dags
from turnout.metadata.engine import transact

Turnout = Callable[..., Any]


def audited(engine: Engine) -> Any:
    with engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT action, dag_id, actor FROM audit_log ORDER BY id")
        return [(row.action, row.dag_id) for row in rows if row.actor.startswith("cli:")]


@pytest.mark.usefixtures("orders")
def test_the_list_has_the_keys_of_the_public_api(turnout: Turnout) -> None:
    by_hand, daily = turnout("dags", "list", "-o", "json").json
    assert by_hand["dag_id"] == "by_hand"
    assert by_hand["timetable_summary"] == "None"
    assert daily["tags"] == [{"name": "shop", "dag_id": "orders_daily"}]
    assert daily["timetable_summary"] == "0 0 * * *"
    assert daily["relative_fileloc"] == "orders.py"
    assert (daily["is_paused"], daily["is_stale"], daily["has_import_errors"]) == (False, False, False)
    assert daily["last_parsed_time"].endswith("Z")


@pytest.mark.usefixtures("orders")
def test_the_table_names_each_dag_in_one_line(turnout: Turnout) -> None:
    header, by_hand, daily = turnout("dags", "list").out.splitlines()
    assert header.split()[:3] == ["dag_id", "timetable_summary", "is_paused"]
    assert by_hand.startswith("by_hand ")
    assert daily.startswith("orders_daily ")


@pytest.mark.usefixtures("orders")
def test_the_list_is_narrowed_by_tag_and_by_pause(turnout: Turnout) -> None:
    turnout("dags", "pause", "by_hand")
    assert [dag["dag_id"] for dag in turnout("dags", "list", "--tag", "shop", "-o", "json").json] == ["orders_daily"]
    assert [dag["dag_id"] for dag in turnout("dags", "list", "--paused", "-o", "json").json] == ["by_hand"]
    assert [dag["dag_id"] for dag in turnout("dags", "list", "--unpaused", "-o", "json").json] == ["orders_daily"]


@pytest.mark.usefixtures("orders")
def test_a_timetable_that_cannot_be_read_any_more_hides_no_other_dag(turnout: Turnout, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("""
            UPDATE dag_version SET content = jsonb_set(content, '{schedule}', '{"type": "moon"}')
            WHERE dag_id = 'orders_daily'
        """)
    summaries = {dag["dag_id"]: dag["timetable_summary"] for dag in turnout("dags", "list", "-o", "json").json}
    assert summaries["orders_daily"].startswith("unreadable: Unknown timetable")
    assert len(summaries) > 1


@pytest.mark.usefixtures("orders")
def test_a_list_that_is_cut_says_so(turnout: Turnout) -> None:
    ran = turnout("dags", "list", "--limit", "1", "-o", "json")
    assert [dag["dag_id"] for dag in ran.json] == ["by_hand"]
    assert ran.err == "Only the first 1 are shown: ask for more with --limit.\n"
    assert turnout("dags", "list", "--limit", "2").err == ""


@pytest.mark.usefixtures("orders")
def test_a_retired_dag_is_not_listed_but_still_shown(turnout: Turnout, engine: Engine) -> None:
    transact(engine, lambda connection: dags.retire_file(connection, "orders.py"))
    assert turnout("dags", "list", "-o", "json").json == []
    assert turnout("dags", "show", "by_hand", "-o", "json").json["is_stale"] is True


@pytest.mark.usefixtures("orders")
def test_a_dag_is_shown_with_its_tasks_upstream_first(turnout: Turnout) -> None:
    shown = turnout("dags", "show", "orders_daily", "-o", "json").json
    assert [task["task_id"] for task in shown["tasks"]] == ["extract", "done"]
    extract = shown["tasks"][0]
    assert extract["operator_name"] == "BashOperator"
    assert (extract["queue"], extract["retries"], extract["downstream_task_ids"]) == ("io", 2, ["done"])
    assert (shown["catchup"], shown["params"], shown["start_date"]) == (True, {"limit": 5}, "2024-01-01T00:00:00Z")
    assert shown["latest_dag_version"]["version_number"] == 1


@pytest.mark.usefixtures("orders")
def test_a_dag_is_shown_to_a_person(turnout: Turnout) -> None:
    out = turnout("dags", "show", "orders_daily").out
    assert "Orders of a day" in out
    assert "shop" in out
    assert "extract  BashOperator" in out


@pytest.mark.usefixtures("orders")
def test_pausing_and_unpausing_are_told_and_audited_once(turnout: Turnout, engine: Engine) -> None:
    assert turnout("dags", "pause", "by_hand").out == "DAG by_hand is paused.\n"
    assert turnout("dags", "pause", "by_hand").out == "DAG by_hand was paused already.\n"
    assert turnout("dags", "unpause", "by_hand").out == "DAG by_hand is unpaused.\n"
    assert turnout("dags", "unpause", "by_hand").out == "DAG by_hand was not paused.\n"
    assert audited(engine) == [("dag.pause", "by_hand"), ("dag.unpause", "by_hand")]


@pytest.mark.usefixtures("orders")
def test_unpausing_wakes_the_schedulers(turnout: Turnout, engine: Engine) -> None:
    turnout("dags", "pause", "by_hand")
    with engine.connect() as connection:
        connection.exec_driver_sql("LISTEN turnout_scheduler")
        connection.commit()
        turnout("dags", "unpause", "by_hand")
        assert list(connection.connection.driver_connection.notifies(timeout=5, stop_after=1))


@pytest.mark.usefixtures("orders")
def test_the_next_runs_follow_the_timetable(turnout: Turnout) -> None:
    runs = turnout("dags", "next-runs", "orders_daily", "--limit", "2", "-o", "json").json
    assert [run["logical_date"] for run in runs] == ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"]
    assert runs[0]["data_interval_end"] == runs[0]["run_after"] == "2024-01-02T00:00:00Z"


@pytest.mark.usefixtures("orders")
def test_the_next_runs_say_which_of_them_are_created_at_once(turnout: Turnout) -> None:
    runs = turnout("dags", "next-runs", "orders_daily", "--limit", "17", "-o", "json").json
    assert [run["creation"] for run in runs] == ["at_once"] * 16 + ["when_room"]


@pytest.mark.usefixtures("orders")
def test_a_dry_run_of_unpausing_lists_what_would_be_created_and_changes_nothing(
    turnout: Turnout, engine: Engine
) -> None:
    turnout("dags", "pause", "orders_daily")
    ran = turnout("dags", "unpause", "orders_daily", "--dry-run", "--limit", "2", "-o", "json")
    assert [run["logical_date"] for run in ran.json] == ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"]
    assert ran.err == "Only the first 2 are shown: ask for more with --limit.\n"
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT is_paused FROM dag WHERE dag_id = 'orders_daily'").scalar_one()
    ran = turnout("dags", "unpause", "by_hand", "--dry-run")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "No run of DAG by_hand is due: nothing would be created.\n"


@pytest.mark.usefixtures("orders")
def test_the_policy_for_missed_runs_and_the_jitter_are_shown(turnout: Turnout) -> None:
    shown = turnout("dags", "show", "orders_daily", "-o", "json").json
    assert (shown["catchup_policy"], shown["jitter"], shown["jitter_shift"]) == ("all", None, 0.0)


@pytest.mark.usefixtures("orders")
def test_the_next_runs_begin_after_the_last_scheduled_one(turnout: Turnout, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO dag_run (dag_id, run_id, run_type, logical_date, data_interval_start, data_interval_end)"
            " VALUES ('orders_daily', 's', 'scheduled', '2024-03-01', '2024-03-01', '2024-03-02')"
        )
    [run] = turnout("dags", "next-runs", "orders_daily", "--limit", "1", "-o", "json").json
    assert run["logical_date"] == "2024-03-02T00:00:00Z"


@pytest.mark.usefixtures("orders")
def test_a_dag_without_schedule_has_no_next_runs(turnout: Turnout) -> None:
    ran = turnout("dags", "next-runs", "by_hand")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "The timetable of DAG by_hand gives no further runs.\n"


@pytest.mark.usefixtures("orders")
def test_a_dag_whose_plan_is_used_up_says_that_more_will_be_planned(turnout: Turnout, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE dag SET plan_is_open = true WHERE dag_id = 'by_hand'")
    assert "are not planned yet: the DAG processor does it" in turnout("dags", "next-runs", "by_hand").err


@pytest.mark.usefixtures("orders")
def test_import_errors_name_file_line_and_message(turnout: Turnout, engine: Engine) -> None:
    problem = dags.ImportProblem("NameError: name 'x' is not defined", 7)
    transact(engine, lambda connection: dags.save_import_error(connection, "broken.py", problem))
    [error] = turnout("dags", "import-errors", "-o", "json").json
    assert (error["filename"], error["line"]) == ("broken.py", 7)
    assert error["stack_trace"] == "NameError: name 'x' is not defined"
    assert "broken.py  7     NameError" in turnout("dags", "import-errors").out
