"""`turnout tasks explain` and `turnout runs explain`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Turnout = Callable[..., Any]

RUN = ("orders_daily", "r1")


@pytest.fixture
def run(turnout: Turnout, orders: Path) -> None:  # noqa: ARG001  the DAGs must be there
    turnout("dags", "trigger", *RUN[:1], "--run-id", RUN[1])


@pytest.mark.usefixtures("run")
def test_the_verdict_comes_first_then_a_line_for_each_reason(turnout: Turnout, control_plane: Any) -> None:
    control_plane.start()
    lines = turnout("tasks", "explain", *RUN, "done").out.splitlines()
    assert (
        lines[0]
        == "Task done has not begun and waits: it waits for extract (none) upstream, by trigger rule all_success."
    )
    assert lines[2].split() == ["reason", "what", "what", "to", "do"]
    assert lines[3].startswith("upstream ")
    assert lines[3].endswith("See what that waits for: turnout tasks explain orders_daily r1 extract")


@pytest.mark.usefixtures("run")
def test_an_explanation_is_read_by_programs_as_well(turnout: Turnout, control_plane: Any) -> None:
    control_plane.start()
    explained = turnout("tasks", "explain", *RUN, "done", "-o", "json").json
    assert (explained["dag_id"], explained["dag_run_id"], explained["task_id"]) == (*RUN, "done")
    assert (explained["state"], explained["line"]) == ("none", None)
    assert explained["verdict"].endswith(f"{explained['waits_for']}.")
    (reason,) = explained["reasons"]
    assert (reason["reason"], reason["is_blocking"], reason["needed"]) == ("upstream", True, 1)
    assert reason["who"] == ["extract (none)"]


@pytest.mark.usefixtures("run")
def test_a_task_that_waits_is_shown_with_what_it_waits_for(turnout: Turnout, control_plane: Any) -> None:
    control_plane.start()
    shown = turnout("tasks", "show", *RUN, "done", "-o", "json").json
    assert shown["waits_for"].startswith("it waits for extract (none) upstream")
    assert "waits_for " in turnout("tasks", "show", *RUN, "done").out
    control_plane.claim("extract")
    assert turnout("tasks", "show", *RUN, "extract", "-o", "json").json["waits_for"] is None


@pytest.mark.usefixtures("run")
def test_a_task_in_line_is_told_its_place(turnout: Turnout, control_plane: Any) -> None:
    control_plane.start()
    turnout("dags", "trigger", RUN[0], "--run-id", "r2", "--logical-date", "2000-01-01")
    control_plane.start()
    with control_plane.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE task_instance SET state = 'scheduled' WHERE task_id = 'extract'")
    last = turnout("tasks", "explain", *RUN, "extract").out.splitlines()[-1]
    assert last.startswith("Before it in the line of pool default_pool (run priority 0, priority weight 2, run date ")
    assert last.endswith(" UTC): 1. First: orders_daily r2 extract.")
    first = turnout("tasks", "explain", RUN[0], "r2", "extract").out.splitlines()[-1]
    assert first.startswith("It is the first in the line of pool default_pool (run priority 0, priority weight 2, ")


@pytest.mark.usefixtures("run")
def test_limits_of_the_settings_are_known_to_an_explanation(
    turnout: Turnout, control_plane: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    control_plane.start()
    turnout("dags", "trigger", RUN[0], "--run-id", "r2", "--logical-date", "2000-01-01")
    control_plane.start()
    with control_plane.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE task_instance SET state = 'scheduled' WHERE task_id = 'extract'")
    monkeypatch.setenv("TURNOUT_SCHEDULER__PARALLELISM", "1")
    explained = turnout("tasks", "explain", *RUN, "extract", "-o", "json").json
    assert [(reason["reason"], reason["limit"]) for reason in explained["reasons"]] == [("parallelism", 1)]


@pytest.mark.usefixtures("run", "control_plane")
def test_a_run_that_does_not_start_is_explained(turnout: Turnout) -> None:
    turnout("dags", "pause", RUN[0])
    out = turnout("runs", "explain", *RUN).out.splitlines()
    assert out[0] == "Run r1 is queued and waits: DAG orders_daily is paused."
    assert out[-1].split() == [
        "dag_paused",
        *["DAG", "orders_daily", "is", "paused.", "turnout", "dags", "unpause", "orders_daily"],
    ]
    explained = turnout("runs", "explain", *RUN, "-o", "json").json
    assert (explained["state"], explained["reasons"][0]["reason"]) == ("queued", "dag_paused")
    of_task = turnout("tasks", "explain", *RUN, "done", "-o", "json").json
    assert [reason["reason"] for reason in of_task["reasons"]] == ["dag_paused", "run_not_started"]


@pytest.mark.usefixtures("run", "control_plane")
def test_what_is_not_there_is_one_clear_line(turnout: Turnout) -> None:
    near = turnout("tasks", "explain", *RUN, "extrct")
    assert (near.code, near.out) == (1, "")
    assert near.err == "Error: There is no task in run r1 of DAG orders_daily called extrct. Did you mean extract?\n"
    mapped = turnout("tasks", "explain", *RUN, "extract", "--map-index", "3")
    assert "There is no instance of task extract with map index 3." in mapped.err
    assert "Did you mean r1?" in turnout("runs", "explain", RUN[0], "r11").err
