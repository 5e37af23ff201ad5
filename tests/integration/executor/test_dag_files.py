"""DAG files as a worker finds them: missing, changed, wrong, or too slow to import."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests import rows
from tests.integration.executor.conftest import Stage, WorkerProcess
from turnout.config.settings import Settings

FILE = """
from turnout.tasks import DAG, task
{body}
with DAG("mine", schedule=None):
    @task
    def {task_id}():
        return {value!r}
    {task_id}()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "scripted.py").write_bytes((rows.DAGS / "scripted.py").read_bytes())
    return folder


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path, folder: Path) -> Settings:
    return Settings(
        home=tmp_path,
        database_url=SecretStr(database_url),
        broker_url=SecretStr(broker_url),
        dags_folder=folder,
    )


def write(folder: Path, task_id: str = "t", value: str = "first", body: str = "") -> None:
    (folder / "mine.py").write_text(FILE.format(task_id=task_id, value=value, body=body))


def insert(stage: Stage, folder: Path) -> None:
    with stage.engine.begin() as connection:
        rows.insert_dags(connection, "mine.py", folder)


def run(stage: Stage, run_id: str, *states: str) -> rows.TaskRow:
    with stage.engine.begin() as connection:
        ids = rows.insert_run(connection, "mine", run_id)
    stage.broker.publish(stage.queue(*ids.values()))
    return stage.wait(next(iter(ids.values())), *states)


def test_a_changed_file_is_imported_again(stage: Stage, worker: WorkerProcess, folder: Path) -> None:
    write(folder)
    insert(stage, folder)
    assert stage.xcom(run(stage, "r1", "success").id) == "first"
    write(folder, value="the second")
    for number in range(4):
        assert stage.xcom(run(stage, f"r2-{number}", "success").id) == "the second"
    assert worker.process.poll() is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda folder: (folder / "mine.py").unlink(), "Cannot read"),
        (lambda folder: write(folder, body="1 / 0"), "ZeroDivisionError"),
        (lambda folder: write(folder, task_id="other"), "Task t is not in DAG mine"),
        (lambda folder: (folder / "mine.py").write_text("# no dag here"), "DAG mine is not declared by"),
    ],
)
def test_a_file_that_does_not_have_the_task_fails_it_with_the_reason(
    stage: Stage, worker: WorkerProcess, folder: Path, change: Callable[[Path], None], complaint: str
) -> None:
    write(folder)
    insert(stage, folder)
    change(folder)
    failed = run(stage, "r", "failed")
    assert complaint in str(failed.error)
    assert worker.process.poll() is None


def test_an_import_that_takes_too_long_is_an_infra_failure(
    stage: Stage, start_worker: Callable[..., WorkerProcess], folder: Path
) -> None:
    write(folder)
    insert(stage, folder)
    write(folder, body="import time; time.sleep(3600)")
    start_worker("-c", "1", TURNOUT_WORKER__IMPORT_TIMEOUT_S="0.3")
    lost = run(stage, "r", "scheduled")
    assert (lost.outcome, lost.cause, lost.infra_failures) == ("lost", "import_timeout", 1)


def test_an_import_that_cannot_be_interrupted_is_killed(
    stage: Stage, start_worker: Callable[..., WorkerProcess], folder: Path
) -> None:
    write(folder)
    insert(stage, folder)
    write(
        folder, body="import signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); time.sleep(3600)"
    )
    start_worker("-c", "1", TURNOUT_WORKER__IMPORT_TIMEOUT_S="0.3")
    lost = run(stage, "r", "scheduled")
    assert (lost.outcome, lost.cause) == ("lost", "import_timeout")
