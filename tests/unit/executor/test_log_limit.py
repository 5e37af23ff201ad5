"""The largest size of a log."""
# ruff: noqa: T201  prints are what is limited here

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from turnout.config.masking import Masker
from turnout.executor.capture import AttemptLog, captured
from turnout.executor.log_limit import LogLimit, LogTrimmer
from turnout.executor.logs import LogTail, read_log
from turnout.executor.roster import Roster

MAX_BYTES = 1 << 20
LINE = f"{'x':<98}"
MARKER = (
    "The log has reached its limit of 1 MiB: what this attempt says from here on is not kept "
    "(setting worker.max_log_per_attempt_mb)."
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def log(path: Path) -> Iterator[AttemptLog]:
    log = AttemptLog(path, MAX_BYTES, Masker())
    yield log
    log.close()


def messages(path: Path) -> list[str]:
    return [entry.msg for entry in read_log(path)]


def test_prints_beyond_the_limit_are_dropped_and_the_log_says_so(path: Path, log: AttemptLog) -> None:
    with captured(log):
        for number in range(20_000):
            print(number)
        print("and more")
    *kept, last = messages(path)
    assert kept == [str(number) for number in range(len(kept))]
    assert MAX_BYTES // 200 < len(kept) < 20_000
    assert last == MARKER
    assert path.stat().st_size == LogLimit(path, MAX_BYTES).end


def test_a_log_of_just_the_limit_is_whole(path: Path) -> None:
    path.write_bytes(b"x" * (MAX_BYTES - 1) + b"\n")
    assert LogLimit(path, MAX_BYTES).cut() == MAX_BYTES
    assert len(messages(path)) == 1


def test_what_subprocesses_write_is_cut_while_they_go_on(path: Path, log: AttemptLog) -> None:
    roster = SimpleNamespace(
        running=lambda: [SimpleNamespace(assignment=SimpleNamespace(log_file=str(path), log_max_bytes=MAX_BYTES))]
    )
    trimmer = LogTrimmer(cast("Roster", roster))
    with captured(log):
        for _ in range(3):
            os.write(1, f"{LINE}\n".encode() * 20_000)
            trimmer.run_once()
            print("dropped")
        os.write(1, b"at the end\n")
    log.close()
    *kept, last = messages(path)
    assert set(kept) == {LINE}
    assert len(kept) == MAX_BYTES // 99
    assert last == MARKER


def test_one_line_that_is_too_long_is_cut_within(path: Path) -> None:
    path.write_bytes(b"y" * 3 * MAX_BYTES)
    LogLimit(path, MAX_BYTES).cut()
    assert messages(path) == ["y" * MAX_BYTES, MARKER]
    LogLimit(path, MAX_BYTES).cut()
    assert messages(path) == ["y" * MAX_BYTES, MARKER]


def test_somebody_who_had_read_more_still_reads_that_the_log_was_cut(path: Path) -> None:
    path.write_bytes(f"{LINE}\n".encode() * 40_000)
    tail = LogTail(path)
    assert len(list(tail.read(to_the_end=False))) == 40_000
    LogLimit(path, MAX_BYTES).cut()
    assert [entry.msg for entry in tail.read(to_the_end=False)] == [MARKER]
    assert list(tail.read(to_the_end=True)) == []
