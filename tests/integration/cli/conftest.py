"""The command line on a database of its own, in this process or as a process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from turnout.cli.main import main
from turnout.config.settings import load_settings
from turnout.executor.publisher import CeleryBroker
from turnout.metadata import dags, processes, queueing
from turnout.metadata.attempts import AttemptKey, ClaimedAttempt, FinishedAttempt, claim_queued, finish_if_running
from turnout.metadata.decisions import schedule_due, set_states
from turnout.metadata.engine import transact
from turnout.metadata.messages import AttemptMessage
from turnout.metadata.states import Outcome, TaskState
from turnout.scheduler.start_runs import start_runs
from turnout.tasks.loading import load_file
from turnout.tasks.serialization import content_hash, serialize

ORDERS = """
from datetime import datetime
from turnout.tasks import DAG, BashOperator, EmptyOperator

with DAG("orders_daily", schedule="@daily", start_date=datetime(2024, 1, 1), catchup=True, tags=["shop"],
         description="Orders of a day", params={"limit": 5}):
    extract = BashOperator(task_id="extract", bash_command="echo hello", retries=2, queue="io")
    extract >> EmptyOperator(task_id="done")

with DAG("by_hand", schedule=None, tags=["ad-hoc"]):
    BashOperator(task_id="only", bash_command="true")
"""


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output as JSON."""
        return json.loads(self.out)


Turnout = Callable[..., Ran]


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, database_url: str, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("TURNOUT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TURNOUT_HOME", str(tmp_path))
    monkeypatch.setenv("TURNOUT_DATABASE_URL", database_url)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def turnout(settings: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Turnout:  # noqa: ARG001  it is in the environment
    """Run a command in this process."""

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["turnout", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return Ran(int(end.value.code or 0), said.out, said.err)

    return run


@pytest.fixture
def process(settings: None) -> Turnout:  # noqa: ARG001  it is in the environment
    """Run a command as a process, with other settings where given; None unsets one."""

    def run(*arguments: str, **variables: str | None) -> Ran:
        environment = {**os.environ, **variables}
        ended = subprocess.run(
            [sys.executable, "-m", "turnout.cli.main", *arguments],
            capture_output=True,
            text=True,
            env={name: value for name, value in environment.items() if value is not None},
            check=False,
        )
        return Ran(ended.returncode, ended.stdout, ended.stderr)

    return run


@dataclass(frozen=True)
class ControlPlane:
    """A scheduler and a worker that act when told to."""

    engine: Engine
    scheduler: int
    worker: int

    def start(self) -> None:
        transact(self.engine, lambda connection: start_runs(connection, 100))

    def queue(self, task_id: str) -> AttemptMessage:
        def work(connection: Connection) -> AttemptMessage:
            found = connection.execute(
                text("SELECT dag_run_id, id, state FROM task_instance WHERE task_id = :task_id"), {"task_id": task_id}
            ).one()
            if found.state == TaskState.NONE:
                set_states(connection, [(found.dag_run_id, task_id, TaskState.SCHEDULED)])
            schedule_due(connection, 100)
            [message] = queueing.queue_scheduled(connection, self.scheduler, [found.id])
            return message

        return transact(self.engine, work)

    def key(self, message: AttemptMessage) -> AttemptKey:
        return AttemptKey(message.task_instance_id, message.attempt_id)

    def publish(self, task_id: str) -> None:
        broker = CeleryBroker(load_settings())
        broker.publish([self.queue(task_id)])
        broker.close()

    def claim(self, task_id: str) -> ClaimedAttempt:
        key = self.key(self.queue(task_id))
        [claimed] = transact(self.engine, lambda connection: claim_queued(connection, self.worker, [key]))
        return claimed

    def finish(self, claimed: ClaimedAttempt, state: TaskState, outcome: Outcome, **more: Any) -> None:
        ended = FinishedAttempt(claimed.key, state, outcome, **more)
        assert transact(self.engine, lambda connection: finish_if_running(connection, [ended]))


@pytest.fixture
def control_plane(engine: Engine) -> ControlPlane:
    def register(connection: Connection) -> tuple[int, int]:
        scheduler = processes.Registration("scheduler", "sched-1", 3600, hostname="north")
        worker = processes.Registration("worker", "crane", 3600, queues=["io"], slots=4, hostname="south")
        return processes.register(connection, scheduler), processes.register(connection, worker)

    return ControlPlane(engine, *transact(engine, register))


@pytest.fixture
def orders(engine: Engine, tmp_path: Path) -> Path:
    """The DAG file above, stored as a DAG processor stores it; both DAGs are unpaused."""
    path = tmp_path / "dags" / "orders.py"
    path.parent.mkdir()
    path.write_text(ORDERS)
    declared = [dags.DeclaredDag(dag.dag_id, content_hash(serialize(dag)), serialize(dag)) for dag in load_file(path)]

    def store(connection: Connection) -> None:
        for dag in declared:
            dags.save_dag(connection, path.name, dag, paused_at_creation=False)

    transact(engine, store)
    return path
