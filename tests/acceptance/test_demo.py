"""`turnout demo`: the main job from one command, on a machine where nothing else is prepared."""

import csv
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.families import commands_below
from turnout.cli.local.servers import EmbeddedServers
from turnout.config.embedded import embedded_folder
from turnout.metadata.engine import open_engine, transact
from turnout.metadata.listings.processes import list_schedulers

Eventually = Callable[..., Any]


class Demo:
    """The command, and the folder in which it makes its home."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("TURNOUT_")}
        # A setting of the person's own must not reach the throwaway platform.
        environ = own | {"TMPDIR": str(self.folder), "TURNOUT_DATABASE_URL": "postgresql://root@127.0.0.1:1/nowhere"}
        command = [sys.executable, "-m", "turnout.cli.main", "demo", *arguments]
        pipe = subprocess.PIPE
        self.started.append(subprocess.Popen(command, env=environ, stdout=pipe, stderr=pipe, text=True))
        return self.started[-1]

    @property
    def home(self) -> Path | None:
        """The home, while there is one."""
        return next(self.folder.glob("turnout-demo-*"), None)

    def said(self, name: str) -> str:
        """Read what a process printed."""
        path = self.home and self.home / "output" / f"{name}.log"
        return path.read_text() if path and path.exists() else ""


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    demo = Demo(tmp_path)
    yield demo
    for process in demo.started:
        process.kill()
        process.communicate()
    for home in tmp_path.iterdir():
        # The sockets of a home with so long a name are outside of it.
        shutil.rmtree(embedded_folder(home), ignore_errors=True)


def count_departures(home: Path) -> dict[str, int]:
    paths = sorted(home.glob("flights/departures/day=*/origin=*.csv"))
    counts = dict.fromkeys((path.parent.name.removeprefix("day=") for path in paths), 0)
    for path in paths:
        counts[path.parent.name.removeprefix("day=")] += len(list(csv.DictReader(path.read_text().splitlines())))
    return counts


def pid_of(demo: subprocess.Popen[str], *words: str) -> int | None:
    """Find one of its processes by words of its command line."""
    below = commands_below(demo.pid).items()
    return next((pid for pid, command in below if all(word in command.split() for word in words)), None)


def test_january_is_right_though_a_scheduler_is_killed(demo: Demo) -> None:
    process = demo.start("--keep")
    out, err = process.communicate(timeout=170)

    assert (process.returncode, err) == (0, ""), out
    assert "27,004 departures in 31 days" in out
    assert "✗" not in out
    assert "All of it holds." in out
    assert demo.home is not None
    assert str(demo.home) in out
    departures = count_departures(demo.home)
    assert (departures["2013-01-01"], sum(departures.values()), len(departures)) == (842, 27_004, 31)
    # The database bears witness: one scheduler did not end its term.
    with EmbeddedServers(demo.home, durable=False) as servers:
        engine = open_engine(servers.database_url, name="test")
        ends = {row.name: row.state for row in transact(engine, lambda c: list_schedulers(c, 10)).rows}
        engine.dispose()
    (killed,) = [name for name, state in ends.items() if state != "stopped"]
    assert set(ends) == {"scheduler-1", "scheduler-2"}
    assert f"{killed} was killed by SIGKILL after " in out


def test_it_says_what_went_wrong_and_keeps_the_evidence(demo: Demo, eventually: Eventually) -> None:
    process = demo.start()
    eventually(lambda: demo.home and list(demo.home.glob("flights/reports/*")))
    os.kill(eventually(lambda: pid_of(process, "worker-heavy")), signal.SIGKILL)
    out, _ = process.communicate(timeout=170)

    assert process.returncode == 1
    assert "worker-heavy was killed by SIGKILL" in out
    assert "✗ nobody else ended" in out
    assert demo.home is not None
    assert f"Kept {demo.home}" in out


def test_an_interrupt_leaves_nothing_behind(demo: Demo, eventually: Eventually) -> None:
    process = demo.start()
    eventually(lambda: "worker.registered" in demo.said("worker-heavy"))
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)

    assert (process.returncode, err) == (130, "")
    assert list(demo.folder.iterdir()) == []
    assert not any(member.is_running() for member in family)
