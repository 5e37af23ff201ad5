"""`turnout tasks`: task instances, their attempts and their logs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnout.metadata.states import Cause, Outcome, TaskState

Turnout = Callable[..., Any]

RUN = ("orders_daily", "r1")


@pytest.fixture
def run(turnout: Turnout, control_plane: Any, orders: Path) -> None:  # noqa: ARG001  the DAGs must be there
    turnout("dags", "trigger", *RUN[:1], "--run-id", RUN[1])
    control_plane.start()


def fail_and_retry(control_plane: Any, claimed: Any) -> None:
    control_plane.finish(
        claimed, TaskState.UP_FOR_RETRY, Outcome.FAILED, cause=Cause.ERROR, error="exit code 3", retry_delay_s=0
    )


@pytest.mark.usefixtures("run")
def test_task_instances_have_the_keys_of_the_public_api(turnout: Turnout, control_plane: Any) -> None:
    control_plane.claim("extract")
    extract, done = turnout("tasks", "list", *RUN, "-o", "json").json
    assert (extract["task_id"], extract["dag_id"], extract["dag_run_id"]) == ("extract", *RUN)
    assert (extract["state"], extract["try_number"], extract["max_tries"], extract["map_index"]) == (
        "running",
        1,
        2,
        -1,
    )
    assert (extract["hostname"], extract["worker"], extract["operator"]) == ("south", "crane", "BashOperator")
    assert (extract["pool"], extract["pool_slots"], extract["queue"]) == ("default_pool", 1, "io")
    assert extract["queued_when"] < extract["start_date"]
    assert (done["task_id"], done["state"], done["start_date"]) == ("done", "none", None)


@pytest.mark.usefixtures("run")
def test_task_instances_are_listed_by_state(turnout: Turnout, control_plane: Any) -> None:
    control_plane.claim("extract")
    listed = turnout("tasks", "list", *RUN, "--state", "running", "-o", "json").json
    assert [task["task_id"] for task in listed] == ["extract"]


@pytest.mark.usefixtures("run")
def test_a_task_is_shown_with_its_earlier_attempts(turnout: Turnout, control_plane: Any) -> None:
    fail_and_retry(control_plane, control_plane.claim("extract"))
    control_plane.finish(control_plane.claim("extract"), TaskState.SUCCESS, Outcome.SUCCESS)
    shown = turnout("tasks", "show", *RUN, "extract", "-o", "json").json
    first, second = shown["attempts"]
    assert (shown["state"], shown["try_number"]) == ("success", 2)
    assert (first["try_number"], first["outcome"], first["cause"]) == (1, "failed", "error")
    assert (first["error"], first["worker"], first["scheduler"]) == ("exit code 3", "crane", "sched-1")
    assert (second["try_number"], second["outcome"], second["is_current"]) == (2, "success", True)
    assert first["queued_when"] < first["start_date"] < first["end_date"] < second["queued_when"]


@pytest.mark.usefixtures("run")
def test_the_attempts_are_shown_to_a_person(turnout: Turnout, control_plane: Any) -> None:
    fail_and_retry(control_plane, control_plane.claim("extract"))
    out = turnout("tasks", "show", *RUN, "extract").out
    assert "up_for_retry" in out
    assert out.splitlines()[-1].endswith("crane   failed   error  exit code 3")


@pytest.mark.usefixtures("run")
def test_a_task_or_map_index_that_is_not_there_is_one_clear_line(turnout: Turnout) -> None:
    near = turnout("tasks", "show", *RUN, "extrct")
    mapped = turnout("tasks", "show", *RUN, "extract", "--map-index", "3")
    assert (near.code, mapped.code) == (1, 1)
    assert "Did you mean extract?" in near.err
    assert "There is no instance of task extract with map index 3." in mapped.err


@pytest.mark.usefixtures("run")
def test_xcoms_are_listed_as_json(turnout: Turnout, control_plane: Any) -> None:
    claimed = control_plane.claim("extract")
    control_plane.finish(claimed, TaskState.SUCCESS, Outcome.SUCCESS, return_value='{"rows": [1, null]}')
    [xcom] = turnout("tasks", "xcoms", *RUN, "extract", "-o", "json").json
    assert (xcom["key"], xcom["value"]) == ("return_value", {"rows": [1, None]})
    assert (xcom["dag_id"], xcom["run_id"], xcom["task_id"], xcom["map_index"]) == (*RUN, "extract", -1)
    assert 'return_value  {"rows": [1, null]}' in turnout("tasks", "xcoms", *RUN, "extract").out


@pytest.mark.usefixtures("run")
def test_a_task_without_xcoms_says_so(turnout: Turnout) -> None:
    ran = turnout("tasks", "xcoms", *RUN, "done")
    assert (ran.code, ran.err) == (0, "Task done has no XComs.\n")
    assert "Did you mean extract?" in turnout("tasks", "xcoms", *RUN, "extrct").err
