"""What Flower shows of real workers is what is true in Turnout, over either broker."""

import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.flower import LOG_IN, Pages
from tests.integration.executor.conftest import ON_BOTH_BROKERS, eventually
from tests.platform import Platform
from turnout.metadata.changes.mark import mark_tasks
from turnout.metadata.changes.selection import RunSelection, TaskSelection
from turnout.metadata.engine import transact
from turnout.metadata.states import TaskState

State = tuple[str, str, int]  # name, state, try


@pytest.fixture
def pages(platform: Platform, broker_url: str) -> Iterator[Pages]:
    pages = Pages(platform, broker_url)
    process = pages.start(FLOWER_BASIC_AUTH=LOG_IN, TURNOUT_WORKER__LEASE_S="3")
    eventually(lambda: pages.answer("/healthcheck") == (200, "OK"))
    yield pages
    _end(process)


def _end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


@ON_BOTH_BROKERS
def test_every_attempt_has_its_true_end_in_flower(platform: Platform, pages: Pages) -> None:
    platform.declare("scripted.py", small=1)
    platform.start("scheduler", "scheduler-1")
    platform.start("worker", "north", "-c", "4")
    # A lost attempt of this worker is not tried again, so the end of the child is the end of the task.
    platform.start("worker", "south", "-q", "gpu", "-p", "default_pool", TURNOUT_SCHEDULER__MAX_INFRA_RETRIES="0")
    eventually(lambda: _served(pages) == {"north": _queues("default"), "south": {"default_pool.gpu"}})

    script = {
        "one": ["signal:SIGKILL", "succeed"],
        "two": ["skip"],
        "retried": ["fail"],
        "limited": ["hang"],
        "gpu": ["signal:SIGKILL"],
        "pooled": ["hang"],
    }
    run_id = platform.trigger("scripted", script, pids="/dev/null", command="exit 1")
    eventually(lambda: "pooled" in {entry["task_id"] for entry in platform.ledger("start")})
    pooled = TaskSelection(RunSelection("scripted", run_id), ("pooled",))
    transact(platform.engine, lambda c: mark_tasks(c, pooled, TaskState.SUCCESS, actor="ada"))
    eventually(lambda: platform.run_state(run_id) == "failed")

    ends = {
        ("one", "RETRY", 1),
        ("one", "SUCCESS", 2),
        ("two", "SUCCESS", 1),
        ("retried", "RETRY", 1),
        ("retried", "RETRY", 2),
        ("retried", "FAILURE", 3),
        ("limited", "FAILURE", 1),
        ("gpu", "FAILURE", 1),
        ("pooled", "REVOKED", 1),
        ("bash", "FAILURE", 1),
        ("bash_limited", "FAILURE", 1),
    }
    eventually(lambda: _shown(pages, run_id) == {(f"scripted.{name}", state, number) for name, state, number in ends})
    of_gpu = next(task for task in pages.json("/api/tasks").values() if task["name"] == "scripted.gpu")
    assert of_gpu["exception"].startswith("Killed by signal 9 (SIGKILL)")
    assert of_gpu["worker"].startswith("south@")


@ON_BOTH_BROKERS
def test_workers_that_end_leave_flower_and_what_they_ran_is_shown_as_lost(platform: Platform, pages: Pages) -> None:
    platform.declare("scripted.py", small=1)
    platform.start("scheduler", "scheduler-1")
    for name in ("north", "south"):
        platform.start("worker", name, "-c", "2", *(("-q", "gpu") if name == "south" else ()))
    eventually(lambda: _listed(pages) == {"north": True, "south": True})

    run_id = platform.trigger("scripted", {"*": ["hang"]}, pids="/dev/null", command="true")
    eventually(lambda: {("scripted.gpu", "STARTED", 1)} <= _shown(pages, run_id))
    platform.kill("south")
    platform.kill("north", signal.SIGTERM)
    eventually(lambda: platform.said("north", "worker.draining"))
    platform.kill("north", signal.SIGTERM)
    assert platform.processes["north"].wait(40) == 0

    eventually(lambda: _listed(pages) == {})
    eventually(lambda: {("scripted.gpu", "RETRY", 1), ("scripted.one", "RETRY", 1)} <= _shown(pages, run_id))
    assert "STARTED" not in {state for _, state, _ in _shown(pages, run_id)}
    of_gpu = next(task for task in pages.json("/api/tasks").values() if task["name"] == "scripted.gpu")
    assert of_gpu["exception"] == "The worker that ran this attempt was lost."
    assert of_gpu["worker"].startswith("south@")


def _queues(queue: str) -> set[str]:
    return {f"{pool}.{queue}" for pool in ("default_pool", "small")}


def _served(pages: Pages) -> dict[str, set[str]]:
    """Read the Celery queues of each worker, by the name of the worker without its machine."""
    workers = pages.json("/api/workers?refresh=1").items()
    return {name.split("@")[0]: {one["name"] for one in seen.get("active_queues", ())} for name, seen in workers}


def _listed(pages: Pages) -> dict[str, bool]:
    """Read whether each worker of Flower's list is there, by the name of the worker without its machine."""
    return {worker["hostname"].split("@")[0]: worker["status"] for worker in pages.json("/workers?json=1")["data"]}


def _shown(pages: Pages, run_id: str) -> set[State]:
    """Read the attempts of a run: the name of each, its state and its try."""
    return {
        (task["name"], task["state"], _try_of(task))
        for task in pages.json("/api/tasks").values()
        if task["args"] == f"('{run_id}',)"
    }


def _try_of(task: dict[str, Any]) -> int:
    before, _, number = task["kwargs"].rpartition(" ")
    assert before == "{'map_index': -1, 'try':"
    return int(number.rstrip("}"))
