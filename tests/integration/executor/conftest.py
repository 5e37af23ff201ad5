"""A real worker in a process of its own, and a stage that plays the scheduler's part before it."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import kombu
import psutil
import pytest
import redis
from pydantic import SecretStr
from sqlalchemy import Engine

from tests import rows
from tests.conftest import Servers
from tests.platform import Platform
from turnout.config.settings import Settings
from turnout.executor.logs import LogEntry, read_log
from turnout.executor.publisher import CeleryBroker
from turnout.metadata.messages import AttemptMessage

WAIT_S = 40
_COMMAND = "import typer; from turnout.cli.worker import worker; typer.run(worker)"


def eventually(check: Callable[[], Any], timeout_s: float = WAIT_S) -> Any:
    """Return the first true result of `check`."""
    pause = threading.Event()
    end = time.monotonic() + timeout_s
    while not (result := check()):
        assert time.monotonic() < end, "it did not happen in time"
        pause.wait(0.02)
    return result


class WorkerProcess:
    """A `turnout worker`."""

    def __init__(
        self,
        environ: Mapping[str, str],
        log: Path,
        arguments: Sequence[str],
        *,
        prelude: str = "",
        within: Sequence[str] = (),
    ) -> None:
        self.log = log
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [*within, sys.executable, "-c", prelude + _COMMAND, *arguments],
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
            )

    def wait_for(self, event: str, count: int = 1) -> None:
        """Wait until an event is in the worker's log."""
        eventually(lambda: self.process.poll() is not None or self.said(event) >= count)
        assert self.said(event) >= count, self.log.read_text()

    def said(self, event: str) -> int:
        """Count an event in the worker's log."""
        return len(re.findall(rf'"event": "{re.escape(event)}', self.log.read_text()))

    def children(self) -> list[psutil.Process]:
        """List the children that run attempts, and callbacks."""
        return [child for child in psutil.Process(self.process.pid).children() if not _is_watchdog(child)]

    def watchdog(self) -> psutil.Process:
        """Return the process that outlives the main process for a moment."""
        return next(filter(_is_watchdog, psutil.Process(self.process.pid).children()))

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the main process."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end; return the exit code."""
        return self.process.wait(WAIT_S)


def _is_watchdog(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):  # it is ending
        return "watchdog_process" in str(process.cmdline())
    return False


class Stage:
    """Plays the scheduler: inserts runs, queues and publishes their tasks, and looks at what became of them."""

    def __init__(self, engine: Engine, settings: Settings, folder: Path) -> None:
        self.engine = engine
        self.settings = settings
        self.broker = CeleryBroker(settings)
        self.ledger = folder / "ledger"
        with engine.begin() as connection:
            rows.insert_dags(connection, "scripted.py")
            self.scheduler_id = rows.insert_scheduler(connection)
        self._runs = 0

    def publish(self, script: Mapping[str, Sequence[str]], **conf: Any) -> dict[str, int]:
        """Run tasks of the scripted DAG; return their task instances' ids."""
        ids = self.insert(script, **conf)
        self.broker.publish(self.queue(*ids.values()))
        return ids

    def insert(self, script: Mapping[str, Sequence[str]], **conf: Any) -> dict[str, int]:
        """Insert a run of some tasks of the scripted DAG, to do as the script says."""
        self._runs += 1
        whole = {"ledger": str(self.ledger), "script": script, **conf}
        with self.engine.begin() as connection:
            return rows.insert_run(connection, "scripted", f"run-{self._runs}", list(script), whole)

    def queue(self, *ids: int) -> list[AttemptMessage]:
        """Queue task instances."""
        with self.engine.begin() as connection:
            return rows.queue_tasks(connection, self.scheduler_id, ids)

    def task(self, task_instance_id: int) -> rows.TaskRow:
        """Read a task instance."""
        with self.engine.begin() as connection:
            return rows.read_task(connection, task_instance_id)

    def xcom(self, task_instance_id: int) -> Any:
        """Read the return value of a task instance."""
        with self.engine.begin() as connection:
            return rows.read_xcom(connection, task_instance_id)

    def wait(self, task_instance_id: int, *states: str, timeout_s: float = WAIT_S) -> rows.TaskRow:
        """Wait until a task instance has one of some states."""
        eventually(lambda: self.task(task_instance_id).state in states, timeout_s)
        return self.task(task_instance_id)

    def entries(self, event: str) -> list[dict[str, Any]]:
        """Read the ledger."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return [line for line in map(json.loads, lines) if line["event"] == event]

    def wait_for_start(self, count: int = 1) -> list[dict[str, Any]]:
        """Wait until so many attempts have started; return their entries in the ledger."""
        eventually(lambda: len(self.entries("start")) >= count)
        return self.entries("start")

    def logged(self, task_id: str) -> list[LogEntry]:
        """Read the logs of all attempts of a task, in order."""
        paths = sorted(self.settings.logs_path.glob(f"scripted/*/{task_id}/*/*.jsonl"))
        return [entry for path in paths for entry in read_log(path)]


#: For tests whose promise must hold over either broker.
ON_BOTH_BROKERS = pytest.mark.parametrize("broker_kind", ["valkey", "rabbitmq"])
_QUEUES = [f"{pool}.{queue}" for pool in ("default_pool", "small", "etl") for queue in ("default", "gpu")]


@pytest.fixture
def broker_kind() -> str:
    return "valkey"


@pytest.fixture
def broker_url(broker_kind: str, request: pytest.FixtureRequest) -> str:
    name = "own_rabbitmq" if broker_kind == "rabbitmq" else "own_valkey"
    return str(request.getfixturevalue(name))


@pytest.fixture
def own_valkey(servers: Servers, broker_number: int, broker_client: "redis.Redis") -> str:
    assert broker_client.ping()
    return f"redis+socket://{servers.broker_socket}?virtual_host={broker_number}"


@pytest.fixture
def own_rabbitmq(rabbitmq_url: str) -> Iterator[str]:
    """A RabbitMQ that has none of the queues before and afterwards."""
    _require_unused(rabbitmq_url)
    yield rabbitmq_url
    with kombu.Connection(rabbitmq_url) as connection:
        for name in _QUEUES:
            connection.default_channel.queue_delete(name)


def _require_unused(url: str) -> None:
    for name in _QUEUES:
        with kombu.Connection(url) as connection, contextlib.suppress(*connection.channel_errors):
            found = connection.default_channel.queue_declare(name, passive=True)
            if found.message_count or found.consumer_count:
                pytest.skip(f"somebody uses queue {name} of the RabbitMQ in TURNOUT_TEST_RABBITMQ_URL")


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path,
        database_url=SecretStr(database_url),
        broker_url=SecretStr(broker_url),
        dags_folder=rows.DAGS,
    )


@pytest.fixture
def stage(engine: Engine, settings: Settings, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(engine, settings, tmp_path)
    yield stage
    stage.broker.close()


@pytest.fixture
def platform(engine: Engine, settings: Settings, tmp_path: Path) -> Iterator[Platform]:
    """Real schedulers beside real workers, for what takes both."""
    platform = Platform(engine, settings, tmp_path)
    yield platform
    platform.stop_all()


@pytest.fixture
def environ(settings: Settings) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("TURNOUT_")}
    return own | {
        "TURNOUT_HOME": str(settings.home),
        "TURNOUT_DATABASE_URL": settings.database.get_secret_value(),
        "TURNOUT_BROKER_URL": settings.broker.get_secret_value(),
        "TURNOUT_DAGS_FOLDER": str(settings.dags_path),
        "TURNOUT_WORKER__KILL_GRACE_S": "1",
    }


@pytest.fixture
def start_worker(environ: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    started: list[WorkerProcess] = []

    def start(*arguments: str, prelude: str = "", within: Sequence[str] = (), **variables: str) -> WorkerProcess:
        log = tmp_path / f"worker-{len(started)}.log"
        given = arguments or ("-c", "2")
        started.append(WorkerProcess(environ | variables, log, given, prelude=prelude, within=within))
        started[-1].wait_for("worker.registered")
        return started[-1]

    yield start
    for worker in started:
        worker.process.kill()
        worker.process.wait()


@pytest.fixture
def worker(stage: Stage, start_worker: Callable[..., WorkerProcess]) -> WorkerProcess:
    """A worker of two slots; it finds the DAGs that the stage has inserted."""
    assert stage
    return start_worker()
