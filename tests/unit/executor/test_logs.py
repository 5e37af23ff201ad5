"""The logs of attempts: caught, written, named and read."""
# ruff: noqa: T201  prints are what is caught here

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from uuid import UUID

import pytest

from turnout.config.masking import Masker
from turnout.executor.capture import AttemptLog, captured
from turnout.executor.logs import LogEntry, log_path, read_log

MAX_BYTES = 50 << 20
ATTEMPT_ID = UUID("01890000-0000-7000-8000-000000000001")


def name(folder: Path, run_id: str) -> Path:
    return log_path(folder, dag_id="d", run_id=run_id, task_id="t", map_index=-1, try_number=2, attempt_id=ATTEMPT_ID)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return name(tmp_path, "run")


def messages(path: Path) -> list[tuple[str, str, str]]:
    return [(entry.stream, entry.level, entry.msg) for entry in read_log(path)]


def test_a_log_is_named_by_dag_run_task_map_index_try_and_attempt(tmp_path: Path) -> None:
    found = name(tmp_path, "scheduled__2013-01-01T00:00:00+00:00")
    assert str(found.relative_to(tmp_path)) == f"d/scheduled__2013-01-01T00:00:00+00:00/t/-1/2-{ATTEMPT_ID}.jsonl"


@pytest.mark.parametrize("run_id", ["..", "../../etc", "a/b", "/root", "."])
def test_a_run_id_cannot_lead_out_of_the_folder_of_logs(tmp_path: Path, run_id: str) -> None:
    assert name(tmp_path, run_id).resolve().is_relative_to((tmp_path / "d").resolve())
    assert len(name(tmp_path, run_id).relative_to(tmp_path).parts) == 5


def test_prints_logging_and_subprocesses_are_all_in_the_log(path: Path) -> None:
    log = AttemptLog(path, MAX_BYTES, Masker())
    with captured(log):
        print("hello")
        print("oops", file=sys.stderr)
        logging.getLogger("mine").warning("careful %s", 1)
        subprocess.run(["echo", "from below"], check=True)
        sys.stdout.buffer.write(b"raw bytes\n")
        print("no newline", end="")
    log.close()
    assert messages(path) == [
        ("stdout", "info", "hello"),
        ("stderr", "error", "oops"),
        ("logging", "warning", "careful 1"),
        ("stdout", "info", "from below"),
        ("stdout", "info", "raw bytes"),
        ("stdout", "info", "no newline"),
    ]


def test_everything_is_as_before_when_the_attempt_is_over(path: Path) -> None:
    streams, handlers = (sys.stdout, sys.stderr), logging.getLogger().handlers[:]
    inode = os.fstat(1).st_ino
    with captured(AttemptLog(path, MAX_BYTES, Masker())):
        assert os.fstat(1).st_ino == path.stat().st_ino
    assert (sys.stdout, sys.stderr) == streams
    assert logging.getLogger().handlers == handlers
    assert os.fstat(1).st_ino == inode


def test_an_entry_is_in_the_file_at_once(path: Path) -> None:
    with captured(AttemptLog(path, MAX_BYTES, Masker())):
        print("now")
        assert messages(path) == [("stdout", "info", "now")]


def test_output_of_a_subprocess_without_a_newline_spoils_no_entry(path: Path) -> None:
    with captured(AttemptLog(path, MAX_BYTES, Masker())):
        os.write(1, b"half")
        print("whole")
    assert messages(path) == [("stdout", "info", "half"), ("stdout", "info", "whole")]


@pytest.mark.parametrize(
    "line",
    [
        '{"ts": "then", "level": "info"}',
        '{"ts": "then", "msg": "m", "level": "info", "logger": "", "stream": "stdout"}',
        '{"ts": "2013-01-01T00:00:00", "msg": "m", "level": "info", "logger": "", "stream": "stdout"}',
        '{"ts": "2013-01-01T00:00:00Z", "msg": 1, "level": "info", "logger": "", "stream": "stdout"}',
    ],
)
def test_json_of_a_subprocess_is_read_as_plain_output(path: Path, line: str) -> None:
    with captured(AttemptLog(path, MAX_BYTES, Masker())):
        os.write(1, line.encode() + b"\n")
    assert list(read_log(path)) == [LogEntry(None, "info", "", line, "stdout")]


def test_a_log_that_cannot_be_opened_costs_nothing_but_the_log(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("a file where a folder should be")
    log = AttemptLog(name(tmp_path, "run"), MAX_BYTES, Masker())
    with captured(log):
        print("lost")
    assert "Cannot write the log" in str(log.problem)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_full_disk_costs_nothing_but_the_log(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/full")
    log = AttemptLog(path, MAX_BYTES, Masker())
    with captured(log):
        print("lost")
        logging.getLogger().error("lost as well")
        sys.stdout.buffer.write(b"and these bytes")
    assert "No space left" in str(log.problem)


def test_threads_may_print_at_the_same_time(path: Path) -> None:
    def chatter(number: int) -> None:
        for _ in range(100):
            print(f"thread {number}")

    with captured(AttemptLog(path, MAX_BYTES, Masker())):
        threads = [threading.Thread(target=chatter, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [message for _, _, message in messages(path)]
    assert sorted(found) == sorted(f"thread {number}" for number in range(4) for _ in range(100))


def test_a_record_that_cannot_be_formatted_is_noted(path: Path) -> None:
    with captured(AttemptLog(path, MAX_BYTES, Masker())):
        logging.getLogger("mine").info("%d", "not a number")
    assert [message.startswith("A log record could not be formatted") for _, _, message in messages(path)] == [True]
