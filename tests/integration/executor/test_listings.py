"""What `turnout workers list` and `turnout queues list` say of real workers and of a real broker."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any
from uuid import uuid4

import psutil
import pytest

from tests import rows
from tests.integration.executor.conftest import ON_BOTH_BROKERS, Stage, WorkerProcess, eventually
from turnout.metadata.messages import AttemptMessage

StartWorker = Callable[..., WorkerProcess]
Listed = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def listed(environ: dict[str, str]) -> Listed:
    def run(group: str) -> list[dict[str, Any]]:
        command = [sys.executable, "-m", "turnout.cli.main", group, "list", "-o", "json"]
        return list(json.loads(subprocess.run(command, env=environ, check=True, capture_output=True).stdout))

    return run


@ON_BOTH_BROKERS
def test_every_column_of_a_queue_is_right(stage: Stage, start_worker: StartWorker, listed: Listed) -> None:
    with stage.engine.begin() as connection:
        rows.insert_pool(connection, "small", 1)
    start_worker("-c", "2", "-p", "default_pool")
    start_worker("-c", "3", "-p", "default_pool", "-q", "gpu")
    gate = stage.settings.home / "gate"
    stage.publish({name: [f"wait_for:{gate}"] for name in ("one", "two", "gpu")})
    stage.wait_for_start(3)
    stage.publish({"pooled": ["succeed"]})
    for _ in range(2):
        stage.publish({"one": ["succeed"]})
    waiting = stage.insert({"two": ["succeed"]})["two"]
    with stage.engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE task_instance SET scheduled_at = now() - interval '1 h' WHERE id = %(id)s", {"id": waiting}
        )
    names = ["default_pool.default", "default_pool.gpu", "small.default"]
    eventually(lambda: list(stage.broker.depths(names).values()) == [2, 0, 1])

    queues = listed("queues")
    oldest = [queue.pop("oldest_wait") for queue in queues]
    assert 3600 <= oldest[0] < 3660
    assert oldest[1] is None
    assert 0 < oldest[2] < 60
    nothing: dict[str, Any] = {"waiting": 0, "queued": 0, "running": 0, "live_workers": 0, "live_slots": 0, "depth": 0}
    default, gpu = {"pool": "default_pool", "queue": "default"}, {"pool": "default_pool", "queue": "gpu"}
    busy = {"waiting": 1, "queued": 2, "running": 2, "live_workers": 1, "live_slots": 2, "depth": 2}
    assert queues == [
        {"celery_queue": names[0], **default, "is_paused": False, **busy},
        {"celery_queue": names[1], **gpu, "is_paused": False, **nothing, "running": 1}
        | {"live_workers": 1, "live_slots": 3},
        {"celery_queue": names[2], "pool": "small", "queue": "default", "is_paused": False, **nothing}
        | {"queued": 1, "depth": 1},
    ]
    gate.touch()


def test_every_column_of_a_worker_is_right(stage: Stage, start_worker: StartWorker, listed: Listed) -> None:
    north = start_worker("-c", "3", "-n", "north", "-q", "gpu,default", "-p", "small,default_pool")
    start_worker("-c", "1", "-n", "south", "--no-callbacks")
    stage.publish({name: ["hang"] for name in ("one", "gpu")})
    stage.wait_for_start(2)
    held = sum(1 for start in stage.entries("start") if start["pid"] in {child.pid for child in north.children()})

    first, other = listed("workers")
    assert (first["name"], first["state"], first["pid"]) == ("north", "alive", north.process.pid)
    assert (first["hostname"], first["version"]) == (os.uname().nodename, version("turnout"))
    assert (first["queues"], first["pools"]) == (["gpu", "default"], ["small", "default_pool"])
    assert (first["slots"], first["running"], first["runs_callbacks"]) == (3, held, True)
    assert (other["name"], other["queues"], other["pools"], other["slots"]) == ("south", ["default"], None, 1)
    assert (other["running"], other["runs_callbacks"]) == (2 - held, False)
    assert (first["closed_for"], first["end_date"]) == (None, None)
    # What changes all the time is right at some moment soon.
    eventually(lambda: listed("workers")[0]["load"] == round(os.getloadavg()[0], 2))
    eventually(lambda: listed("workers")[0]["memory_mb"] == pytest.approx(_memory_mb(north), rel=0.05))
    eventually(lambda: _beat(listed) > datetime.now(UTC) - timedelta(seconds=4))
    before = _beat(listed)
    eventually(lambda: _beat(listed) > before)


@ON_BOTH_BROKERS
def test_the_consumers_of_a_deleted_pool_go(stage: Stage, worker: WorkerProcess) -> None:
    with stage.engine.begin() as connection:
        rows.insert_pool(connection, "etl", 1)
    worker.wait_for("worker.pools")
    with stage.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM pool WHERE name = 'etl'")
    worker.wait_for("worker.pools", count=2)
    stage.broker.publish([_nobodys("etl"), _nobodys("default_pool")])
    worker.wait_for("attempt.duplicate_dropped")
    assert stage.broker.depths(["etl.default", "default_pool.default"]) == {
        "etl.default": 1,
        "default_pool.default": 0,
    }


def _nobodys(pool: str) -> AttemptMessage:
    return AttemptMessage(
        task_instance_id=0,
        attempt_id=uuid4(),
        dag_id="scripted",
        run_id="run",
        task_id="one",
        map_index=-1,
        try_number=1,
        pool=pool,
        queue="default",
    )


def _memory_mb(worker: WorkerProcess) -> int:
    main = psutil.Process(worker.process.pid)
    return sum(process.memory_info().rss for process in (main, *main.children(recursive=True))) >> 20


def _beat(listed: Listed) -> datetime:
    return datetime.fromisoformat(listed("workers")[0]["latest_heartbeat"])
