"""Limits of memory and CPU time, and the surroundings that tasks ask for: real children that do use that much."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import Engine

from tests import rows
from tests.families import commands_below
from tests.integration.executor.conftest import Stage, WorkerProcess, eventually
from turnout.config.settings import Settings
from turnout.executor.logs import read_log

StartWorker = Callable[..., WorkerProcess]


class LimitedStage(Stage):
    """The stage of the DAG whose tasks have limits."""

    def run_limited(self, script: dict[str, list[str]], **conf: Any) -> dict[str, int]:
        """Run tasks of the DAG; return their task instances' ids."""
        self._runs += 1
        whole = {"ledger": str(self.ledger), "script": script, **conf}
        with self.engine.begin() as connection:
            ids = rows.insert_run(connection, "limited", f"run-{self._runs}", list(script), whole)
        self.broker.publish(self.queue(*ids.values()))
        return ids


@pytest.fixture
def stage(engine: Engine, settings: Settings, tmp_path: Path) -> Iterator[LimitedStage]:
    stage = LimitedStage(engine, settings, tmp_path)
    with engine.begin() as connection:
        rows.insert_dags(connection, "limited.py")
    yield stage
    stage.broker.close()


@pytest.fixture
def alone(stage: LimitedStage, start_worker: StartWorker) -> WorkerProcess:
    """A worker of one slot: one child runs all attempts, one after the other."""
    assert stage
    return start_worker("-c", "1")


def test_a_task_that_uses_too_much_memory_is_killed_and_says_how_much(
    stage: LimitedStage, alone: WorkerProcess
) -> None:
    ids = stage.run_limited({"memory": ["hold_mb:400"]})
    task = stage.wait(ids["memory"], "up_for_retry")  # it is the task's own fault
    assert (task.outcome, task.cause, task.infra_failures) == ("failed", "memory_limit", 0)
    found = re.match(
        r"Used (\d+) MiB of memory, more than its memory_limit_mb of 250, and was killed: ", str(task.error)
    )
    assert found is not None, task.error
    assert int(found[1]) > 250
    assert alone.process.poll() is None


def test_a_task_below_its_memory_limit_is_left_alone(stage: LimitedStage, alone: WorkerProcess) -> None:
    assert alone
    ids = stage.run_limited({"memory": ["allocate_mb:100"]})
    assert stage.wait(ids["memory"], "success", "failed", "up_for_retry").state == "success"


def test_what_a_command_starts_counts_and_ends_with_it(stage: LimitedStage, alone: WorkerProcess) -> None:
    ids = stage.run_limited({"bash_memory": []})
    task = stage.wait(ids["bash_memory"], "failed")
    assert task.cause == "memory_limit"
    eventually(lambda: "400 << 20" not in str(commands_below(alone.process.pid)))


@pytest.mark.parametrize("task_id", ["cpu", "bash_cpu"])
def test_a_task_that_uses_too_much_cpu_time_is_asked_to_stop_and_says_how_much(
    stage: LimitedStage, alone: WorkerProcess, task_id: str
) -> None:
    ids = stage.run_limited({task_id: ["burn"]})
    task = stage.wait(ids[task_id], "failed")
    assert (task.outcome, task.cause) == ("failed", "cpu_time_limit")
    assert re.match(r"Used [\d.]+ s of CPU time, more than its cpu_time_limit of 1 s, and was ended: ", str(task.error))
    if task_id == "cpu":
        assert len(stage.entries("burnt")) == 1
    assert alone.process.poll() is None


def test_cpu_time_counts_from_the_start_of_the_attempt(stage: LimitedStage, alone: WorkerProcess) -> None:
    burnt = stage.run_limited({"cpu": ["burn"]})["cpu"]
    stage.wait(burnt, "failed")
    (child,) = alone.children()
    assert sum(child.cpu_times()[:2]) > 1
    again = stage.run_limited({"cpu": ["burn_for:0.6"]})["cpu"]
    assert stage.wait(again, "success", "failed").state == "success"
    assert [one.pid for one in alone.children()] == [child.pid]


def test_a_child_killed_by_a_signal_is_reported_with_the_peak_memory_of_this_attempt(
    stage: LimitedStage, alone: WorkerProcess
) -> None:
    before = stage.run_limited({"plain": ["allocate_mb:600"]})["plain"]
    stage.wait(before, "success")
    (child,) = alone.children()
    ids = stage.run_limited({"plain": ["kill_with_mb:200"]})
    task = stage.wait(ids["plain"], "scheduled")
    assert task.cause == "child_killed"
    found = re.fullmatch(
        r"Killed by signal 9 \(SIGKILL\): probably out of memory\. Its peak memory was (\d+) MiB\.", str(task.error)
    )
    assert found is not None, task.error
    assert 200 <= int(found[1]) < 500
    assert not psutil.pid_exists(child.pid)


def test_a_task_has_its_own_environment_and_folder_and_the_next_one_has_not(
    stage: LimitedStage, alone: WorkerProcess, tmp_path: Path
) -> None:
    assert alone
    own = stage.run_limited({"own": ["surroundings"]}, folder=str(tmp_path))["own"]
    stage.wait(own, "success")
    found = stage.xcom(own)
    assert found["own"] == {"OWN_DAY": "run-1", "OWN_B": "b"}
    assert found["folder"] == str(tmp_path)
    plain = stage.run_limited({"plain": ["surroundings"]})["plain"]
    stage.wait(plain, "success")
    after = stage.xcom(plain)
    assert (after["own"], after["pid"]) == ({}, found["pid"])
    assert after["folder"] != str(tmp_path)
    bash = stage.run_limited({"bash_own": []}, folder=str(tmp_path))["bash_own"]
    stage.wait(bash, "success")
    assert stage.xcom(bash) == "a"
    assert str(tmp_path) in [entry.msg for entry in _logged(stage, "bash_own")]


def test_a_folder_that_is_not_there_fails_the_task_with_its_name(stage: LimitedStage, alone: WorkerProcess) -> None:
    assert alone
    ids = stage.run_limited({"own": ["surroundings"]}, folder="/no/such/folder")
    error = stage.wait(ids["own"], "failed").error
    assert error == "Cannot run in the folder '/no/such/folder' on this worker (cwd): No such file or directory."


def _logged(stage: Stage, task_id: str) -> list[Any]:
    paths = stage.settings.logs_path.glob(f"limited/*/{task_id}/*/*.jsonl")
    return [entry for path in paths for entry in read_log(path)]
