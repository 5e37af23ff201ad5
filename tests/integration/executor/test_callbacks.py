"""Callbacks on real workers; what each was told stands in the ledger that they write."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import Engine, text

from tests import rows
from tests.integration.executor.conftest import Stage, WorkerProcess, eventually
from turnout.config.settings import Settings
from turnout.metadata import attempts, processes
from turnout.metadata.changes.mark import mark_tasks
from turnout.metadata.changes.selection import RunSelection, TaskSelection
from turnout.metadata.engine import transact
from turnout.metadata.states import RunState, TaskState

StartWorker = Callable[..., WorkerProcess]


class CalledStage(Stage):
    """The stage of the DAG that has callbacks for everything."""

    def __init__(self, engine: Engine, settings: Settings, folder: Path) -> None:
        super().__init__(engine, settings, folder)
        with engine.begin() as connection:
            rows.insert_dags(connection, "called.py")

    def run_called(self, script: dict[str, list[str]], **conf: Any) -> dict[str, int]:
        """Run tasks of the DAG; return their task instances' ids."""
        self._runs += 1
        whole = {"ledger": str(self.ledger), "script": script, **conf}
        with self.engine.begin() as connection:
            ids = rows.insert_run(connection, "called", f"run-{self._runs}", list(script), whole)
        self.broker.publish(self.queue(*ids.values()))
        return ids

    def calls(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until callbacks for an event have been called so often; return what they were told."""
        return list(eventually(lambda: found if len(found := self.entries(f"on_{event}")) >= count else None))

    def callbacks(self) -> list[tuple[str, str, int, str | None]]:
        """List event, state, tries and problem of all callbacks."""
        with self.engine.begin() as connection:
            found = connection.execute(text("SELECT event, state, tries, problem FROM callback ORDER BY id"))
            return [tuple(row) for row in found]  # type: ignore[misc]

    def all_done(self) -> bool:
        """Tell whether no callback waits or runs."""
        return not {state for _, state, _, _ in self.callbacks()} & {"waiting", "running"}

    def lose_dead_workers(self, max_infra_retries: int = 0) -> None:
        """Do as the reaper does, with workers that have been killed."""

        def lose(connection: Any) -> None:
            connection.execute(text("UPDATE process SET lease_expires_at = now() WHERE kind = 'worker'"))
            processes.declare_dead(connection, ["worker"])
            attempts.lose_by_dead_workers(connection, max_infra_retries)

        transact(self.engine, lose)


@pytest.fixture
def stage(engine: Engine, settings: Settings, tmp_path: Path) -> Iterator[CalledStage]:
    stage = CalledStage(engine, settings, tmp_path)
    yield stage
    stage.broker.close()


def test_a_task_that_fails_has_its_callbacks_called_once_each_with_what_happened(
    stage: CalledStage, worker: WorkerProcess
) -> None:
    stage.run_called({"one": ["fail:the disk is full"]})
    (call,) = stage.calls("failure")
    assert (call["task_id"], call["try_number"], call["run_id"], call["current"]) == ("one", 1, "run-1", "run-1")
    assert (call["state"], call["has_ended"]) == ("failed", True)
    assert "the disk is full" in call["exception"]
    (begun,) = stage.calls("execute")
    assert (begun["state"], begun["has_ended"], begun["exception"]) == ("running", False, None)
    assert not {"TURNOUT_DATABASE_URL", "TURNOUT_BROKER_URL"} & call["environ"].keys()
    task_pids = {entry["pid"] for entry in stage.entries("start")}
    assert call["pid"] not in {*task_pids, worker.process.pid}
    eventually(stage.all_done)
    assert stage.callbacks() == [("execute", "success", 1, None), ("failure", "success", 1, None)]


def test_retries_a_skip_and_a_success_are_told_each_by_its_own(stage: CalledStage, worker: WorkerProcess) -> None:
    assert worker
    ids = stage.run_called({"retried": ["fail", "succeed"], "one": ["skip:no need"], "silent": ["fail"]})
    stage.calls("retry")
    with stage.engine.begin() as connection:
        connection.execute(text("UPDATE task_instance SET state = 'scheduled' WHERE state = 'up_for_retry'"))
    stage.broker.publish(stage.queue(ids["retried"]))
    stage.calls("success")
    stage.calls("skipped")
    stage.wait(ids["silent"], "failed")
    eventually(stage.all_done)
    told = [(entry["event"], entry["task_id"], entry["try_number"]) for entry in _told(stage)]
    assert sorted(told) == [
        ("on_execute", "one", 1),
        ("on_execute", "retried", 1),
        ("on_execute", "retried", 2),
        ("on_retry", "retried", 1),
        ("on_skipped", "one", 1),
        ("on_success", "retried", 2),
    ]


def test_a_child_that_is_killed_and_a_worker_that_is_killed_have_the_failure_told_by_another_worker(
    stage: CalledStage, start_worker: StartWorker
) -> None:
    first = start_worker("-c", "2", TURNOUT_SCHEDULER__MAX_INFRA_RETRIES="0")
    stage.run_called({"one": ["signal:SIGKILL"]})
    (killed,) = stage.calls("failure")
    assert "Killed by signal 9" in killed["exception"]
    stage.run_called({"one": ["hang"]})
    stage.wait_for_start(2)
    stage.calls("execute", 2)
    eventually(stage.all_done)
    first.send(signal.SIGKILL)
    first.wait()
    stage.lose_dead_workers()
    start_worker("-c", "1")
    lost = stage.calls("failure", 2)[1]
    assert "The worker that ran this attempt was lost" in lost["exception"]


def test_what_a_person_marks_is_told_also_of_the_run(stage: CalledStage, worker: WorkerProcess) -> None:
    assert worker
    stage.run_called({"one": ["hang"]})
    stage.wait_for_start()
    asked = TaskSelection(RunSelection("called", run_id="run-1"), ("one",))
    transact(stage.engine, lambda c: mark_tasks(c, asked, TaskState.SUCCESS, actor="ada"))
    (call,) = stage.calls("success")
    assert (call["task_id"], call["state"]) == ("one", "success")
    with stage.engine.begin() as connection:
        connection.execute(text("UPDATE dag_run SET state = :s, ended_at = now()"), {"s": RunState.FAILED})
    (told,) = stage.calls("failure")
    (too,) = stage.calls("failure_too")
    assert (told["task_id"], told["run_id"], told["state"], told["has_ended"]) == (None, "run-1", "failed", True)
    assert too["pid"] == told["pid"]


def test_callbacks_run_while_all_slots_are_taken(stage: CalledStage, start_worker: StartWorker) -> None:
    start_worker("-c", "1")
    stage.run_called({"silent": ["hang"], "one": ["succeed"]})
    stage.wait_for_start()
    asked = TaskSelection(RunSelection("called", run_id="run-1"), ("one",))
    transact(stage.engine, lambda c: mark_tasks(c, asked, TaskState.SUCCESS, actor="ada"))
    (call,) = stage.calls("success")
    assert call["task_id"] == "one"
    assert len(stage.entries("start")) == 1


def test_a_callback_reads_the_results_of_its_own_run(stage: CalledStage, worker: WorkerProcess) -> None:
    assert worker
    stage.run_called({"one": ["succeed:42"]}, pull="one", big="x" * 5000)
    (call,) = stage.calls("success")
    assert call["pulled"] == "42"


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ("fail:no such channel", "RuntimeError: no such channel"),
        ("sys_exit:3", "SystemExit: 3"),
        ("interrupt", "KeyboardInterrupt"),
        ("fail_unspeakably", "UnspeakableError: (it cannot be shown: KeyboardInterrupt)"),
        ("os_exit:3", "It ended its process with exit code 3."),
        ("signal:SIGKILL", "Its process was killed by signal 9."),
        ("hang", "It took longer than 1 s (setting worker.callback_timeout_s)."),
        ("ignore_sigterm", "(setting worker.callback_timeout_s). It did not stop, and was killed."),
    ],
)
def test_a_callback_that_goes_wrong_says_how_and_harms_nobody(
    stage: CalledStage, start_worker: StartWorker, action: str, problem: str
) -> None:
    worker = start_worker("-c", "1", TURNOUT_WORKER__CALLBACK_TIMEOUT_S="1", TURNOUT_WORKER__IMPORT_TIMEOUT_S="5")
    ids = stage.run_called({"one": ["succeed"]}, callbacks={"success": action})
    eventually(lambda: "success" in [event for event, *_ in stage.callbacks()] and stage.all_done())
    (event, state, tries, said) = stage.callbacks()[-1]
    assert (event, state, tries) == ("success", "failed", 1)
    assert said is not None
    assert said.endswith(problem)
    assert stage.task(ids["one"]).state == "success"
    with stage.engine.begin() as connection:
        log = connection.scalar(text("SELECT log FROM callback WHERE event = 'success'"))
    assert "told of success" in [json.loads(line)["msg"] for line in str(log).splitlines()]
    stage.run_called({"one": ["succeed"]})
    assert stage.calls("success", 2)[1]["run_id"] == "run-2"
    assert worker.process.poll() is None


def test_a_copy_that_a_callback_has_forked_calls_none_of_those_after_it(
    stage: CalledStage, worker: WorkerProcess
) -> None:
    assert worker
    stage.run_called({"one": ["hang"]}, callbacks={"failure": "fork_and_return", "failure_too": "succeed"})
    stage.wait_for_start()
    with stage.engine.begin() as connection:
        connection.execute(text("UPDATE dag_run SET state = :s, ended_at = now()"), {"s": RunState.FAILED})
    stage.calls("failure_too")
    eventually(stage.all_done)
    assert len(stage.calls("failure_too")) == 1


def test_nothing_of_a_callback_outlives_a_worker_whose_main_process_is_killed(
    stage: CalledStage, worker: WorkerProcess, tmp_path: Path
) -> None:
    daemon = tmp_path / "daemon"
    stage.run_called({"one": ["succeed"]}, callbacks={"success": f"leave_daemon_and_hang:{daemon}"})
    (call,) = stage.calls("success")
    eventually(lambda: daemon.exists() and daemon.read_text().endswith("\n"))
    worker.send(signal.SIGKILL)
    worker.wait()
    eventually(lambda: not any(map(psutil.pid_exists, (call["pid"], int(daemon.read_text())))))


@pytest.mark.parametrize("ending", ["exit", "hang"])
def test_nothing_of_a_callback_outlives_the_process_that_it_ends_or_that_is_killed(
    stage: CalledStage, start_worker: StartWorker, tmp_path: Path, ending: str
) -> None:
    start_worker("-c", "1", TURNOUT_WORKER__CALLBACK_TIMEOUT_S="1", TURNOUT_WORKER__IMPORT_TIMEOUT_S="5")
    daemon = tmp_path / "daemon"
    stage.run_called({"one": ["succeed"]}, callbacks={"success": f"leave_daemon_and_{ending}:{daemon}"})
    eventually(lambda: "success" in [event for event, *_ in stage.callbacks()] and stage.all_done())
    eventually(lambda: not psutil.pid_exists(int(daemon.read_text())))


def test_a_callback_outlives_the_children_that_are_killed_beside_it(
    stage: CalledStage, start_worker: StartWorker, tmp_path: Path
) -> None:
    worker = start_worker("-c", "1")
    gate = tmp_path / "gate"
    stage.run_called({"one": ["succeed"]}, callbacks={"success": f"wait_for:{gate}"})
    stage.calls("success")
    ids = stage.run_called({"silent": [f"leave_daemon_and_die:{tmp_path / 'daemon'}"]})
    stage.wait(ids["silent"], "scheduled")
    worker.wait_for("worker.orphans_killed")
    gate.touch()
    eventually(stage.all_done)
    assert stage.callbacks()[-1] == ("success", "success", 1, None)


def test_a_worker_that_is_killed_leaves_its_callback_to_another_and_no_process_behind(
    stage: CalledStage, start_worker: StartWorker, tmp_path: Path
) -> None:
    first = start_worker("-c", "1")
    gate = tmp_path / "gate"
    stage.run_called({"one": ["succeed"]}, callbacks={"success": f"wait_for:{gate}"})
    (begun,) = stage.calls("success")
    first.send(signal.SIGKILL)
    first.wait()
    eventually(lambda: not psutil.pid_exists(begun["pid"]))
    stage.lose_dead_workers()
    gate.touch()
    start_worker("-c", "1")
    assert len(stage.calls("success", 2)) == 2
    eventually(stage.all_done)
    assert stage.callbacks()[-1] == ("success", "success", 2, None)


def test_a_worker_that_shuts_down_brings_its_callback_to_its_end(
    stage: CalledStage, start_worker: StartWorker, tmp_path: Path
) -> None:
    worker = start_worker("-c", "1")
    gate = tmp_path / "gate"
    stage.run_called({"one": ["succeed"]}, callbacks={"success": f"wait_for:{gate}"})
    stage.calls("success")
    worker.send(signal.SIGTERM)
    eventually(lambda: len(worker.children()) == 1)  # only that of the callback is left
    gate.touch()
    assert worker.wait() == 0
    assert stage.callbacks()[-1] == ("success", "success", 1, None)


def test_the_second_signal_ends_a_callback_and_leaves_it_to_another_worker(
    stage: CalledStage, start_worker: StartWorker, tmp_path: Path
) -> None:
    worker = start_worker("-c", "1")
    gate = tmp_path / "gate"
    stage.run_called({"one": ["succeed"]}, callbacks={"success": f"wait_for:{gate}"})
    stage.calls("success")
    worker.send(signal.SIGTERM)
    worker.wait_for("worker.draining")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert stage.callbacks()[-1][:2] == ("success", "running")
    gate.touch()
    start_worker("-c", "1")
    assert len(stage.calls("success", 2)) == 2


def test_a_worker_without_callbacks_runs_none_and_one_only_for_them_runs_no_tasks(
    stage: CalledStage, start_worker: StartWorker
) -> None:
    for number in (1, 2):  # the second finds one that waits when it starts
        worker = start_worker("-c", "1", "--no-callbacks")
        ids = stage.run_called({"one": ["succeed"]})
        stage.wait(ids["one"], "success")
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
        assert [state for _, state, *_ in stage.callbacks()] == ["waiting"] * 2 * number
    start_worker("-c", "1", "-q", "callbacks")
    stage.run_called({"one": ["succeed"]})
    assert len(stage.calls("success", 2)) == 2
    eventually(stage.all_done)
    assert len(stage.entries("start")) == 2


class _Hook(BaseHTTPRequestHandler):
    """Keeps what is posted to it."""

    posted: list[dict[str, Any]]

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.posted.append(json.loads(self.rfile.read(length)))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def webhook() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), _Hook)
    server.posted = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


_NOTIFYING = """
from turnout.tasks import DAG, AppriseNotifier, task

tell = AppriseNotifier(
    urls=["json://127.0.0.1:{{{{ params.port }}}}/hook-s3cret", "{other}"],
    title="{{{{ dag.dag_id }}}}.{{{{ ti.task_id }}}} failed",
    body="try {{{{ ti.try_number }}}}: {{{{ exception }}}}",
    notify_type="failure",
)

with DAG("notifying", schedule=None, params={{"port": 0}}):

    @task(on_failure_callback=tell)
    def breaks():
        raise ValueError("no rows")

    breaks()
"""


@pytest.mark.parametrize(("other", "state"), [("json://127.0.0.1:1/hook-s3cret", "failed"), ("", "success")])
def test_a_failure_is_told_through_apprise_and_the_url_is_masked(  # noqa: PLR0917  pytest gives them by name
    stage: CalledStage, start_worker: StartWorker, tmp_path: Path, webhook: HTTPServer, other: str, state: str
) -> None:
    folder = tmp_path / "own-dags"
    folder.mkdir()
    source = _NOTIFYING.format(other=other).replace(', ""]', "]")
    (folder / "notifying.py").write_text(source)
    start_worker("-c", "1", TURNOUT_DAGS_FOLDER=str(folder))
    with stage.engine.begin() as connection:
        rows.insert_dags(connection, "notifying.py", folder)
        ids = rows.insert_run(connection, "notifying", "run", None, {"port": webhook.server_port})
    stage.broker.publish(stage.queue(*ids.values()))
    eventually(lambda: stage.callbacks() and stage.all_done())
    ((_, found, _, problem),) = stage.callbacks()
    (message,) = webhook.posted  # type: ignore[attr-defined]
    assert (message["title"], message["type"]) == ("notifying.breaks failed", "failure")
    assert message["message"].startswith("try 1: ValueError: no rows")
    assert found == state, problem
    with stage.engine.begin() as connection:
        log = str(connection.scalar(text("SELECT log FROM callback")))
    assert "s3cret" not in f"{log} {problem}"
    if state == "failed":
        assert "could not deliver to json://… (URL 2 of 2)" in str(problem)


def _told(stage: CalledStage) -> list[dict[str, Any]]:
    lines = stage.ledger.read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["event"].startswith("on_")]
