"""Workers that send the logs of their attempts to a store."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.executor.conftest import Stage, WorkerProcess, eventually
from turnout.executor.log_store import LogStore
from turnout.executor.logs import parse_line

StartWorker = Callable[..., WorkerProcess]


class Stored:
    """The store, as the tests look at it."""

    def __init__(self, folder: Path) -> None:
        self.url = f"file://{folder}"
        self._folder = folder
        self._store = LogStore(self.url)

    def parts(self, task_id: str) -> list[str]:
        """List the parts of all attempts of a task in order."""
        logs = sorted(self._folder.glob(f"scripted/*/{task_id}/*/*"))
        names = [path.relative_to(self._folder).as_posix() for path in logs]
        return [f"{name}/{part}" for name in names for part in self._store.list_parts(name)]

    def said(self, task_id: str) -> list[str]:
        """Read what a task printed."""
        lines = [line for part in self.parts(task_id) for line in self._store.read(part).splitlines()]
        return [entry.msg for line in lines for entry in parse_line(line) if entry.stream == "stdout"]


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path / "store")


def test_what_a_running_attempt_says_is_soon_in_the_store_and_outlives_its_worker(
    stage: Stage, start_worker: StartWorker, stored: Stored
) -> None:
    first = start_worker(TURNOUT_LOGS_URL=stored.url)
    stage.publish({"one": ["say_and_hang:on my way"]})
    eventually(lambda: stored.said("one") == ["on my way"])
    assert stored.parts("one")[-1].endswith("/000001.jsonl")
    first.send(signal.SIGKILL)
    first.wait()
    start_worker(TURNOUT_LOGS_URL=stored.url)
    eventually(lambda: stored.parts("one")[-1].endswith(".end.jsonl"))
    assert stored.said("one") == ["on my way"]
    eventually(lambda: not list(stage.settings.logs_path.rglob("*.jsonl")))


def test_a_store_that_is_away_costs_no_outcome_and_gets_the_logs_when_it_is_back(
    stage: Stage, start_worker: StartWorker, stored: Stored, tmp_path: Path
) -> None:
    (tmp_path / "store").write_text("a file where the folder should be")
    worker = start_worker(TURNOUT_LOGS_URL=stored.url)
    ids = stage.publish({"one": ["print_mb:1"]})
    assert stage.wait(ids["one"], "success")
    worker.wait_for("outage.began")
    (tmp_path / "store").unlink()
    worker.wait_for("outage.over")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert len(stored.said("one")) == 1024 * 1024 // 100
    assert worker.said("outage.began") == 1
