"""A worker as the first process of a container, without an init before it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.executor.conftest import WAIT_S, Stage, eventually

#: What the kernel gives everybody of a container: a view of processes in which the command is number 1. Whoever is not
#: root needs a view of users for it, too.
_AS_USER = os.geteuid() != 0
_CONTAINER = ("unshare", *(("--map-root-user",) if _AS_USER else ()), "--pid", "--fork", "--mount-proc", "--kill-child")


def _may_have_containers() -> bool:
    try:
        return subprocess.run([*_CONTAINER, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


pytestmark = pytest.mark.skipif(not _may_have_containers(), reason="this system lets nobody make a PID namespace")


@pytest.fixture
def worker(stage: Stage, environ: dict[str, str], tmp_path: Path) -> Iterator[psutil.Process]:
    assert stage
    log = tmp_path / "worker.log"
    with log.open("w") as output:
        container = subprocess.Popen(
            [*_CONTAINER, sys.executable, "-m", "turnout.cli.main", "worker", "-c", "2"],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    eventually(lambda: '"event": "worker.registered' in log.read_text() or container.poll() is not None)
    assert container.poll() is None, log.read_text()
    (worker,) = psutil.Process(container.pid).children()
    yield worker
    container.kill()
    container.wait()


def test_the_first_process_of_a_container_drains_at_sigterm_and_exits_with_0(
    stage: Stage, worker: psutil.Process
) -> None:
    gate = stage.settings.home / "gate"
    ids = stage.publish({"one": [f"wait_for:{gate}"]})
    stage.wait_for_start()
    worker.send_signal(signal.SIGTERM)
    gate.touch()
    stage.wait(ids["one"], "success")
    container = worker.parent()
    assert container is not None
    assert container.wait(WAIT_S) == 0


def test_the_first_process_of_a_container_waits_for_orphans_of_others(worker: psutil.Process) -> None:
    own = worker.children()
    leave = "import os, time; os.fork() or (time.sleep(0.2), os._exit(0))"
    enter = ["nsenter", "--target", str(worker.pid), "--pid", *(["--user"] if _AS_USER else [])]
    subprocess.run([*enter, sys.executable, "-c", leave], check=True)
    eventually(lambda: len(worker.children()) == len(own) + 1)
    eventually(lambda: worker.children() == own)
    assert worker.is_running()
