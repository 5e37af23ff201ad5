"""`turnout tasks logs`: what a task said, among what schedulers and workers did with it, also as it comes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Engine

from turnout.cli import log_follow
from turnout.executor.log_store import LogStore
from turnout.executor.logs import log_path
from turnout.metadata import processes
from turnout.metadata.attempts import give_back_queued, lose_by_dead_workers
from turnout.metadata.engine import transact
from turnout.metadata.errors import DatabaseUnavailableError
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
        with path.open("a") as file:
            file.write("".join(json.dumps(entry) + "\n" for entry in entries) + "raw output\n")

    return write


@pytest.fixture
def follow(settings: None) -> Iterator[Callable[..., subprocess.Popen[str]]]:  # noqa: ARG001  it is in the environment
    """Follow the log of `extract` in a process."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "turnout.cli.main", "tasks", "logs", *RUN, "extract", "-f", *options]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=dict(os.environ)))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def fail_and_retry(control_plane: Any, claimed: Any) -> None:
    control_plane.finish(
        claimed, TaskState.UP_FOR_RETRY, Outcome.FAILED, cause=Cause.ERROR, error="exit code 3", retry_delay_s=0
    )


def lose_worker(control_plane: Any) -> None:
    """Let the worker's lease be over, and a scheduler notice it."""
    transact(control_plane.engine, lambda connection: processes.end(connection, control_plane.worker))
    assert transact(control_plane.engine, lambda connection: lose_by_dead_workers(connection, 3))


def events_until(process: subprocess.Popen[str], wanted: str) -> list[str]:
    """Read what a follower prints, up to a line that ends with something, without stamps and levels."""
    assert process.stdout is not None
    found: list[str] = []
    while not (found and found[-1] == wanted):
        line = process.stdout.readline()
        assert line, process.communicate()
        found.append(line[len("2013-01-01T00:00:00.000Z INFO    ") :].rstrip("\n"))
    return found


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
def test_letters_that_the_terminal_or_no_text_at_all_can_hold_are_written_out(
    process: Turnout, control_plane: Any, engine: Engine, write_log: Callable[..., None]
) -> None:
    write_log(engine, control_plane.claim("extract"), "half: \ud800", "caf\xe9")
    assert [entry["event"] for entry in process("tasks", "logs", *RUN, "extract", "-o", "json").json][2:4] == [
        "half: \ud800",
        "caf\xe9",
    ]
    out = process("tasks", "logs", *RUN, "extract", PYTHONIOENCODING="ascii").out
    assert "half: \\ud800\n" in out
    assert "caf\\xe9\n" in out


@pytest.mark.usefixtures("run")
def test_entries_tell_who_said_them_and_in_which_try(
    turnout: Turnout, control_plane: Any, engine: Engine, write_log: Callable[..., None]
) -> None:
    write_log(engine, control_plane.claim("extract"), "hello")
    log = turnout("tasks", "logs", *RUN, "extract", "-o", "json").json
    assert [line["source"] for line in log] == ["turnout", "turnout", "task", "task"]
    assert {line["try_number"] for line in log} == {1}


@pytest.mark.usefixtures("run")
def test_a_lost_worker_is_told_before_the_attempt_that_took_its_place(
    turnout: Turnout, control_plane: Any, engine: Engine, write_log: Callable[..., None]
) -> None:
    write_log(engine, control_plane.claim("extract"), "half of the work")
    lose_worker(control_plane)
    control_plane.queue("extract")
    events = [line["event"] for line in turnout("tasks", "logs", *RUN, "extract", "-o", "json").json]
    assert events == [
        "Queued for io by sched-1.",
        "Claimed by crane on south: try 1.",
        "half of the work",
        "raw output",
        "Lost (worker lost), through no fault of the task. The worker that ran this attempt was lost.",
        "Queued for io by sched-1.",
    ]


@pytest.mark.usefixtures("run")
def test_a_log_is_followed_through_its_tries_to_the_end_of_the_task(
    follow: Callable[..., Any], control_plane: Any, engine: Engine, write_log: Callable[..., None]
) -> None:
    process = follow()
    assert process.stderr.readline() == "Task extract has not begun: waiting for its first attempt.\n"
    first = control_plane.claim("extract")
    write_log(engine, first, "one")
    assert events_until(process, "raw output") == [
        "Queued for io by sched-1.",
        "Claimed by crane on south: try 1.",
        "one",
        "raw output",
    ]
    write_log(engine, first, "two")
    assert events_until(process, "raw output") == ["two", "raw output"]
    fail_and_retry(control_plane, first)
    assert events_until(process, "Ended: failed (error). exit code 3")
    second = control_plane.claim("extract")
    write_log(engine, second, "again")
    control_plane.finish(second, TaskState.SUCCESS, Outcome.SUCCESS)
    assert events_until(process, "Ended: success.")[-3:] == ["again", "raw output", "Ended: success."]
    assert (process.communicate(), process.returncode) == (("", ""), 0)


@pytest.mark.usefixtures("run")
def test_following_a_task_that_failed_exits_with_1(turnout: Turnout, control_plane: Any) -> None:
    control_plane.finish(control_plane.claim("extract"), TaskState.FAILED, Outcome.FAILED, cause=Cause.ERROR)
    ran = turnout("tasks", "logs", *RUN, "extract", "--follow", "-o", "json")
    assert ran.code == 1
    assert ran.json[-1]["event"] == "Ended: failed (error)."
    assert "Task extract of run r1 of DAG orders_daily is failed." in ran.err


@pytest.mark.usefixtures("run")
def test_a_log_in_the_store_is_followed_until_its_last_part_is_there(
    turnout: Turnout, control_plane: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNOUT_LOGS_URL", f"file://{tmp_path}/store")
    store = LogStore(f"file://{tmp_path}/store")
    claimed = control_plane.claim("extract")
    folder = f"{RUN[0]}/{RUN[1]}/extract/-1/1-{claimed.attempt_id}"
    store.put({f"{folder}/000001.jsonl": b"one\n"})
    control_plane.finish(claimed, TaskState.SUCCESS, Outcome.SUCCESS)

    def sleep(_: float) -> None:
        store.put({f"{folder}/000002.end.jsonl": b"two\n"})

    monkeypatch.setattr(log_follow, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    ran = turnout("tasks", "logs", *RUN, "extract", "-f", "-o", "json")
    assert [line["event"] for line in ran.json][2:] == ["one", "two", "Ended: success."]
    assert (ran.code, ran.err) == (0, "")
    assert turnout("tasks", "logs", *RUN, "extract", "-o", "json").json == ran.json


@pytest.mark.usefixtures("run")
def test_passwords_of_the_platform_are_masked_whoever_wrote_them(
    turnout: Turnout,
    control_plane: Any,
    engine: Engine,
    write_log: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_log(engine, control_plane.claim("extract"), "broker_url = redis://:hunter2@north/0")
    monkeypatch.setenv("TURNOUT_BROKER_URL", "redis://:hunter2@north/0")
    out = turnout("tasks", "logs", *RUN, "extract").out
    assert "INFO    broker_url = redis://:***@north/0" in out


@pytest.mark.usefixtures("run")
def test_the_rest_of_a_log_that_never_comes_is_not_waited_for_long(
    turnout: Turnout, control_plane: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNOUT_LOGS_URL", f"file://{tmp_path}/store")
    monkeypatch.setattr(log_follow, "PATIENCE_S", 0)
    control_plane.finish(control_plane.claim("extract"), TaskState.SUCCESS, Outcome.SUCCESS)
    ran = turnout("tasks", "logs", *RUN, "extract", "-f")
    assert ran.code == 0
    assert f"The log file://{tmp_path}/store/{RUN[0]}/{RUN[1]}/extract" in ran.err


@pytest.mark.usefixtures("run")
def test_following_goes_on_when_the_database_was_away(
    turnout: Turnout, control_plane: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = control_plane.claim("extract")
    look, looks = log_follow.Follower._look, 0

    def look_through_an_outage(follower: log_follow.Follower) -> Any:
        nonlocal looks
        looks += 1
        if looks in (2, 3):
            raise DatabaseUnavailableError("The database is away.")
        if looks == 4:
            control_plane.finish(claimed, TaskState.SUCCESS, Outcome.SUCCESS)
        return look(follower)

    monkeypatch.setattr(log_follow.Follower, "_look", look_through_an_outage)
    monkeypatch.setattr(log_follow, "POLL_S", 0)
    ran = turnout("tasks", "logs", *RUN, "extract", "-f")
    assert ran.code == 0
    assert "Ended: success." in ran.out
    assert ran.err.count("The database is away. Waiting for it.") == 1


@pytest.mark.usefixtures("run")
def test_ctrl_c_ends_following_without_a_word(
    follow: Callable[..., Any], control_plane: Any, engine: Engine, write_log: Callable[..., None]
) -> None:
    write_log(engine, control_plane.claim("extract"), "hello")
    process = follow("-o", "json")
    lines = [process.stdout.readline() for _ in range(4)]
    process.send_signal(signal.SIGINT)
    rest, remarks = process.communicate()
    assert (process.returncode, remarks) == (130, "")
    assert [line["event"] for line in json.loads("".join(lines) + rest)][2:] == ["hello", "raw output"]


def test_one_try_cannot_be_followed(turnout: Turnout) -> None:
    ran = turnout("tasks", "logs", *RUN, "extract", "-f", "--try", "1")
    assert (ran.code, ran.err) == (2, "Error: --follow shows each try as it comes: leave --try out.\n")
