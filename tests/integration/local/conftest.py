"""Real processes on throwaway homes."""

import contextlib
import json
import os
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

REPOSITORY = Path(__file__).parents[3]
#: Holds a home's servers until its standard input is closed; prints their pids.
HOLD = """
import json, os, pathlib, sys
from turnout.cli.local.servers import EmbeddedServers
with EmbeddedServers(pathlib.Path(sys.argv[1]), durable=False) as servers:
    print(json.dumps({server.title: server.pid for server in servers.running}), flush=True)
    sys.stdin.read()
"""


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass(frozen=True)
class PlainUser:
    """An unprivileged user, and a Python that he may run."""

    uid: int
    python: str

    def popen(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        path = os.pathsep.join([*site.getsitepackages(), str(REPOSITORY / "typings")])
        return subprocess.Popen(
            [self.python, "-B", *arguments],
            user=self.uid,
            group=self.uid,
            extra_groups=[],
            env={"PATH": os.defpath, "PYTHONPATH": path},
            cwd="/",
            text=True,
            **options,
        )


class Holder:
    """Another process that holds a home."""

    def __init__(self, home: Path, user: PlainUser | None = None) -> None:
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        if user:
            self.process = user.popen("-c", HOLD, str(home), **pipes)
        else:
            self.process = subprocess.Popen([sys.executable, "-c", HOLD, str(home)], cwd="/", text=True, **pipes)

    def pids(self) -> dict[str, int]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return json.loads(line)  # type: ignore[no-any-return]

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.communicate()
        return self.process.returncode


@pytest.fixture
def hold() -> Iterator[Callable[..., Holder]]:
    holders: list[Holder] = []

    def start(home: Path, user: PlainUser | None = None) -> Holder:
        holders.append(Holder(home, user))
        return holders[-1]

    yield start
    for holder in holders:
        holder.end()
        for stream in (holder.process.stdin, holder.process.stdout, holder.process.stderr):
            if stream:
                stream.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter and write, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="turnout-test-", dir="/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def nobody() -> PlainUser:
    """An unprivileged user, for tests that root runs."""
    if os.geteuid() != 0:
        pytest.skip("only root may start a process as another user")
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        user = PlainUser(65_534, python)
        with contextlib.suppress(OSError), user.popen("-c", "import turnout.cli.local.servers") as process:
            if process.wait() == 0:
                return user
    pytest.skip("this Python lies in a private folder, which other users cannot enter")
