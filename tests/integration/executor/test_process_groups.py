"""Who gets which signal, and what is left of a worker that is killed: nothing."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from tests.families import is_zombie
from tests.integration.executor.conftest import Stage, WorkerProcess, eventually

StartWorker = Callable[..., WorkerProcess]
#: To be the first process of its world; killed with what has started it.
_UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
_MAY_UNSHARE = shutil.which("unshare") and subprocess.run([*_UNSHARE, "true"], check=False).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_group_of_a_worker_drains_it(
    stage: Stage, worker: WorkerProcess, number: signal.Signals
) -> None:
    gate, pids = stage.settings.home / "gate", stage.settings.home / "pids"
    waiting = f"until test -e {gate}; do sleep 0.05; done"
    ids = stage.publish({"one": [f"wait_for:{gate}"], "bash": []}, pids=str(pids), command=waiting)
    stage.wait_for_start()
    eventually(pids.exists)
    os.killpg(worker.process.pid, number)
    worker.wait_for("worker.draining")
    gate.touch()
    assert worker.wait() == 0
    assert {stage.task(task_instance_id).state for task_instance_id in ids.values()} == {"success"}
    assert worker.said("watchdog.ended") == 0


def test_nothing_outlives_a_worker_whose_main_process_is_killed(stage: Stage, worker: WorkerProcess) -> None:
    family = _family_of_a_busy_worker(stage, worker)
    worker.send(signal.SIGKILL)
    worker.wait()
    eventually(lambda: not [process for process in family if _runs(process)])


def test_a_watchdog_that_is_killed_is_replaced(stage: Stage, worker: WorkerProcess) -> None:
    family = _family_of_a_busy_worker(stage, worker)
    worker.watchdog().kill()
    worker.wait_for("watchdog.ended")
    family.append(eventually(worker.watchdog))
    worker.send(signal.SIGKILL)
    worker.wait()
    eventually(lambda: not [process for process in family if _runs(process)])


@pytest.mark.skipif(not _MAY_UNSHARE, reason="namespaces of processes cannot be made here")
def test_a_worker_that_is_the_first_process_of_a_container_drains_and_leaves_no_zombies(
    stage: Stage, start_worker: StartWorker
) -> None:
    outer = start_worker("-c", "1", within=_UNSHARE)
    (first,) = psutil.Process(outer.process.pid).children()
    pids = stage.settings.home / "pids"
    ids = stage.publish({"one": [f"leave_daemon_and_die:{pids}"]})
    assert stage.wait(ids["one"], "scheduled").cause == "child_killed"
    outer.wait_for("worker.orphans_killed")
    eventually(lambda: not any(is_zombie(child) for child in first.children(recursive=True)))
    gate = stage.settings.home / "gate"
    running = stage.publish({"two": [f"wait_for:{gate}"]})["two"]
    stage.wait_for_start(2)
    first.send_signal(signal.SIGTERM)
    outer.wait_for("worker.draining")
    gate.touch()
    assert outer.wait() == 0
    assert stage.task(running).state == "success"


@pytest.mark.skipif(not _MAY_UNSHARE, reason="namespaces of processes cannot be made here")
def test_a_worker_in_a_container_leaves_alone_the_temporary_folder_of_its_neighbour(
    stage: Stage, start_worker: StartWorker
) -> None:
    assert stage
    with TemporaryDirectory(prefix="t", dir="/tmp") as folder:
        neighbour = start_worker("-c", "1", TMPDIR=folder)
        start_worker("-c", "1", within=_UNSHARE, TMPDIR=folder)
        assert len(list(Path(folder).glob(f"turnout-worker-{neighbour.process.pid}-*"))) == 1


def _family_of_a_busy_worker(stage: Stage, worker: WorkerProcess) -> list[psutil.Process]:
    """Have a worker run a task that has left a daemon behind and cannot be stopped, and a command that has, too."""
    daemon, pids = stage.settings.home / "daemon", stage.settings.home / "pids"
    command = f"setsid --fork sh -c 'trap \"\" TERM; echo $$ >> {pids}; sleep 3600; :'; sleep 3600; :"
    stage.publish({"one": [f"leave_daemon_and_hang:{daemon}"], "bash": []}, pids=str(pids), command=command)
    eventually(lambda: daemon.exists() and daemon.read_text() and pids.exists() and len(pids.read_text().split()) == 2)
    family = psutil.Process(worker.process.pid).children(recursive=True)
    told = {int(pid) for pid in (daemon.read_text() + pids.read_text()).split()}
    assert told <= {process.pid for process in family}
    return family


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
