import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.families import commands_below
from turnout.cli.local.servers import EmbeddedServers

from .conftest import lives

Eventually = Callable[..., None]
UP = """
import sys
from turnout.cli.local.machine import run_machine
from turnout.config.errors import TurnoutError
from turnout.config.settings import load_settings
try:
    run_machine(load_settings(), workers=1, schedulers=2)
except TurnoutError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""
Up = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def up() -> Iterator[Up]:
    started: list[subprocess.Popen[str]] = []

    def start(home: Path, **variables: str) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TURNOUT_")}
        process = subprocess.Popen(
            [sys.executable, "-c", UP],
            env={**environment, "TURNOUT_HOME": str(home), "PYTHONUNBUFFERED": "1", **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.terminate()
        if process.stdout and not process.stdout.closed:
            process.communicate()


def _banner(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    lines = ""
    while "Next" not in lines:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        lines += line
    return lines


def _family(process: subprocess.Popen[str]) -> list[int]:
    return [child.pid for child in psutil.Process(process.pid).children(recursive=True)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_says_what_runs_and_ends_cleanly_when_asked(tmp_path: Path, up: Up, number: signal.Signals) -> None:
    process = up(tmp_path)
    banner = _banner(process)
    assert f"Home      {tmp_path}" in banner
    assert "(empty: put DAG files here)" in banner
    assert (tmp_path / "dags").is_dir()
    family = _family(process)
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert out.endswith("turnout       | stopped\n")
    assert len(family) >= 2
    assert not any(map(lives, family))


def test_ctrl_c_in_the_middle_of_starting_leaves_nothing_behind(tmp_path: Path, up: Up, eventually: Eventually) -> None:
    process = up(tmp_path)
    eventually((tmp_path / "servers" / "postgresql.new").exists)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, "turnout       | stopped\n", "")
    eventually(lambda: not [p for p in psutil.process_iter(["cwd"]) if str(tmp_path) in (p.info["cwd"] or "")])


def test_a_second_one_on_the_same_home_is_refused_in_one_line(tmp_path: Path, up: Up) -> None:
    first = up(tmp_path)
    _banner(first)
    second = up(tmp_path)
    out, err = second.communicate()
    assert (second.returncode, out) == (1, "")
    assert err.startswith(f"Turnout is up in {tmp_path} already, as process {first.pid}.")
    assert err.count("\n") == 1
    assert first.poll() is None


def test_kill_9_ends_all_that_it_started(tmp_path: Path, up: Up, eventually: Eventually) -> None:
    process = up(tmp_path)
    _banner(process)
    family = _family(process)
    process.kill()
    eventually(lambda: not any(map(lives, family)))


def test_with_both_urls_set_it_starts_no_server_and_shows_no_password(tmp_path: Path, up: Up) -> None:
    with EmbeddedServers(tmp_path / "other", durable=False) as other:
        database = other.database_url.replace("turnout@", "turnout:secret@")
        process = up(tmp_path / "home", TURNOUT_DATABASE_URL=database, TURNOUT_BROKER_URL=other.broker_url)
        banner = _banner(process)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 0
    assert not (tmp_path / "home" / "servers").exists()
    assert "secret" not in banner


def test_a_database_that_cannot_be_reached_is_one_clear_line(tmp_path: Path, up: Up) -> None:
    process = up(tmp_path, TURNOUT_DATABASE_URL="postgresql://turnout@127.0.0.1:1/turnout")
    out, err = process.communicate()
    assert (process.returncode, out) == (1, "")
    assert err.count("\n") == 1


def test_json_output_is_json_from_the_first_line(tmp_path: Path, up: Up) -> None:
    process = up(tmp_path, TURNOUT_LOG__FORMAT="json")
    assert process.stdout
    assert "event" in json.loads(process.stdout.readline())


def test_it_stops_cleanly_when_nobody_reads_its_output_any_more(tmp_path: Path, up: Up) -> None:
    process = up(tmp_path)
    _banner(process)
    family = _family(process)
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    worker = next(pid for pid, command in commands_below(process.pid).items() if "worker" in command)
    os.kill(worker, signal.SIGKILL)  # something to say
    assert process.wait() == 0
    assert process.stderr.read() == ""
    process.stderr.close()
    assert not any(map(lives, family))
