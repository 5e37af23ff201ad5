"""`turnout tasks`: task instances, their attempts and their logs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from turnout.executor.logs import log_path
from turnout.metadata.attempts import give_back_queued
from turnout.metadata.engine import transact
from turnout.metadata.states import Cause, Outcome, TaskState

Turnout = Callable[..., Any]

RUN = ("orders_daily", "r1")


@pytest.fixture
def run(turnout: Turnout, control_plane: Any, orders: Path) -> None:  # noqa: ARG001  the DAGs must be there
    turnout("dags", "trigger", *RUN[:1], "--run-id", RUN[1])
    control_plane.start()


@pytest.fixture
def write_log(tmp_path: Path) -> Any:
    """Write the log of an attempt as its worker does, and a line that its subprocess wrote as it was."""

    def write(engine: Engine, claimed: Any, *messages: str) -> None:
        path = log_path(
            tmp_path / "logs",
            dag_id=RUN[0],
            run_id=RUN[1],
            task_id=claimed.task_id,
            map_index=claimed.map_index,
            try_number=claimed.try_number,
            attempt_id=claimed.attempt_id,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        with engine.connect() as connection:
            now = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one().isoformat()
        entries = [
            {"ts": now, "msg": message, "level": "info", "logger": "turnout.task", "stream": "stdout"}
            for message in messages
        ]
        path.write_text("".join(json.dumps(entry) + "\n" for entry in entries) + "raw output\n")

    return write


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
def test_the_log_has_what_the_task_said_among_what_was_done_with_it(
    turnout: Turnout, control_plane: Any, engine: Engine, write_log: Callable[..., None]
) -> None:
    claimed = control_plane.claim("extract")
    write_log(engine, claimed, "hello", "world")
    control_plane.finish(claimed, TaskState.SUCCESS, Outcome.SUCCESS)
    log = turnout("tasks", "logs", *RUN, "extract", "-o", "json").json
    assert [line["event"] for line in log] == [
        "Queued for io by sched-1.",
        "Claimed by crane on south: try 1.",
        "hello",
        "world",
        "raw output",
        "Ended: success.",
    ]
    assert {line["logger"] for line in log} == {"turnout", "turnout.task", ""}
    assert log[2]["timestamp"].endswith("Z")
    assert log[4]["timestamp"] is None


@pytest.mark.usefixtures("run")
def test_the_log_is_readable(
    turnout: Turnout, control_plane: Any, engine: Engine, write_log: Callable[..., None]
) -> None:
    claimed = control_plane.claim("extract")
    write_log(engine, claimed, "hello")
    lines = turnout("tasks", "logs", *RUN, "extract").out.splitlines()
    stamp, _, rest = lines[2].partition(" ")
    assert len(stamp) == len("2013-01-01T00:00:00.000Z")
    assert rest == "INFO    hello"
    assert lines[3] == " " * len(stamp) + " INFO    raw output"


@pytest.mark.usefixtures("run")
def test_the_last_try_is_read_unless_another_is_named(
    turnout: Turnout, control_plane: Any, engine: Engine, write_log: Callable[..., None]
) -> None:
    first = control_plane.claim("extract")
    write_log(engine, first, "one")
    fail_and_retry(control_plane, first)
    write_log(engine, control_plane.claim("extract"), "two")
    assert "two" in turnout("tasks", "logs", *RUN, "extract").out
    earlier = turnout("tasks", "logs", *RUN, "extract", "--try", "1").out
    assert "one" in earlier
    assert "ERROR   Ended: failed (error). exit code 3" in earlier
    assert "two" not in earlier


@pytest.mark.usefixtures("run")
def test_a_lost_attempt_says_so(turnout: Turnout, control_plane: Any) -> None:
    claimed = control_plane.claim("extract")
    control_plane.finish(
        claimed, TaskState.SCHEDULED, Outcome.LOST, cause=Cause.CHILD_KILLED, error="Killed by signal 9."
    )
    out = turnout("tasks", "logs", *RUN, "extract").out
    assert "ERROR   Lost (child killed), through no fault of the task. Killed by signal 9." in out


@pytest.mark.usefixtures("run")
def test_an_attempt_that_never_started_is_told_with_the_try_that_it_would_have_been(
    turnout: Turnout, control_plane: Any, engine: Engine, write_log: Callable[..., None]
) -> None:
    key = control_plane.key(control_plane.queue("extract"))
    assert transact(engine, lambda connection: give_back_queued(connection, [key], Cause.MESSAGE_LOST))
    claimed = control_plane.claim("extract")
    write_log(engine, claimed, "hello")
    events = [line["event"] for line in turnout("tasks", "logs", *RUN, "extract", "--try", "1", "-o", "json").json]
    assert events[:3] == [
        "Queued for io by sched-1.",
        "Returned before it started (message lost): it is queued anew.",
        "Queued for io by sched-1.",
    ]
    assert events[4] == "hello"


@pytest.mark.usefixtures("run")
def test_a_log_that_is_elsewhere_is_named_and_the_events_are_still_read(turnout: Turnout, control_plane: Any) -> None:
    control_plane.claim("extract")
    ran = turnout("tasks", "logs", *RUN, "extract")
    assert ran.code == 0
    assert "Claimed by crane" in ran.out
    assert "was written on south" in ran.err


@pytest.mark.usefixtures("run")
def test_a_task_without_attempts_has_no_log(turnout: Turnout) -> None:
    ran = turnout("tasks", "logs", *RUN, "done")
    assert ran.code == 1
    assert ran.err == "Error: Task done has no log: it has not begun and was never queued.\n"


@pytest.mark.usefixtures("run")
def test_a_try_that_was_not_made_is_one_clear_line(turnout: Turnout, control_plane: Any) -> None:
    control_plane.claim("extract")
    ran = turnout("tasks", "logs", *RUN, "extract", "--try", "4")
    assert ran.code == 1
    assert ran.err == "Error: Task extract has no try 4: it has 1.\n"


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
