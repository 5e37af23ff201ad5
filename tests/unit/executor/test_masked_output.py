"""Secrets in what a task says."""
# ruff: noqa: T201  prints are what is masked here

import logging
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from turnout.config.masking import Masker
from turnout.executor.capture import AttemptLog, captured
from turnout.executor.logs import read_log

SECRET = "correct horse"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def masker() -> Masker:
    return Masker([SECRET])


def messages(path: Path) -> list[str]:
    assert SECRET not in path.read_text()
    return [entry.msg for entry in read_log(path)]


def test_secrets_are_masked_whoever_says_them_and_the_order_is_kept(path: Path, masker: Masker) -> None:
    with captured(AttemptLog(path, 1 << 20, masker)):
        print(f"print {SECRET}")
        logging.getLogger("mine").warning("log %s", SECRET)
        subprocess.run(["echo", f"subprocess {SECRET}"], check=True)
        print(f"stderr {SECRET}", file=sys.stderr)
        sys.stdout.buffer.write(f"bytes {SECRET}\n".encode())
        print("last")
    assert messages(path) == ["print ***", "log ***", "subprocess ***", "stderr ***", "bytes ***", "last"]


def test_secrets_are_masked_also_in_a_process_with_very_many_open_files(path: Path, masker: Masker) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2000, hard), hard))
    many = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with captured(AttemptLog(path, 1 << 20, masker)):
            subprocess.run(["echo", f"subprocess {SECRET}"], check=True)
    finally:
        for descriptor in many:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert messages(path) == ["subprocess ***"]


def test_a_secret_in_several_writes_is_masked(path: Path, masker: Masker) -> None:
    with captured(AttemptLog(path, 1 << 20, masker)):
        sys.stdout.write("say correct ")
        sys.stdout.write("horse twice\n")
        os.write(1, b"raw correct ")
        os.write(1, b"horse\n")
        os.write(1, b"no end correct ")
        os.write(1, b"horse")
    assert messages(path) == ["say *** twice", "raw ***", "no end ***"]


@pytest.mark.parametrize("before", range(16_370, 16_400))
def test_a_secret_on_the_edge_of_a_piece_of_a_long_line_is_masked(path: Path, masker: Masker, before: int) -> None:
    with captured(AttemptLog(path, 1 << 20, masker)):
        print("x" * (before - 5), end="")
        print("correct ", end="")
        print("horse")
        os.write(1, b"x" * before + b"correct ")
        os.write(1, b"horse" + b"x" * 20_000 + b"\n")
    assert "".join(messages(path)).replace("x", "") == "******"


def test_a_secret_that_is_named_on_the_way_is_masked_from_then_on(path: Path) -> None:
    masker = Masker()
    with captured(AttemptLog(path, 1 << 20, masker)):
        assert os.fstat(1).st_ino == path.stat().st_ino
        print("not yet")
        masker.add(SECRET)
        subprocess.run(["echo", SECRET], check=True)
        masker.add("another")
        print(f"another {SECRET}")
    assert messages(path) == ["not yet", "***", "*** ***"]


def test_a_process_that_is_left_behind_does_not_hold_up_the_end(path: Path, masker: Masker) -> None:
    with captured(AttemptLog(path, 1 << 20, masker)):
        flood = subprocess.Popen(["yes", SECRET])
        while not path.stat().st_size:
            print("waiting")
    flood.wait()
    assert {"***", "waiting"} >= set(messages(path)[:-1])


def test_every_byte_of_other_output_stays_as_it_is(path: Path, masker: Masker) -> None:
    data = bytes(byte for byte in range(256) if byte != 10) * 300
    with captured(AttemptLog(path, 1 << 20, masker)):
        os.write(1, data[:40_000])
        os.write(1, data[40_000:])
    assert path.read_bytes() == data
