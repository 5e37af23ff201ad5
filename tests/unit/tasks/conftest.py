"""What the tests of the authoring room share."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turnout.tasks.context import RunFacts
from turnout.tasks.dags import DAG
from turnout.tasks.loading import load_file
from turnout.tasks.operator import BaseOperator
from turnout.tasks.running import TaskResult, run_task

DAY = datetime(2013, 1, 1, tzinfo=UTC)
NEXT_DAY = datetime(2013, 1, 2, tzinfo=UTC)


class Results:
    """The results of other tasks, by task id."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def pull(self, dag_id: str, run_id: str, task_id: str, key: str, map_index: int) -> Any:  # noqa: ARG002
        return self.values[task_id]


def facts_of(task: BaseOperator, **changed: Any) -> RunFacts:
    """Tell of an attempt in the run of 1 January 2013."""
    known = {
        "dag_id": task.dag_id,
        "run_id": "scheduled__2013-01-01",
        "task_id": task.task_id,
        "attempt_id": "0193a6e0-0000-7000-8000-000000000000",
        "run_type": "scheduled",
        "logical_date": DAY,
        "data_interval_start": DAY,
        "data_interval_end": NEXT_DAY,
        "run_after": NEXT_DAY,
    }
    return RunFacts(**{**known, **changed})


@pytest.fixture
def run() -> Callable[..., TaskResult]:
    """Run one attempt of a task, given the results of others."""

    def run(
        task: BaseOperator, results: Mapping[str, Any] | None = None, max_bytes: int = 262_144, **facts: Any
    ) -> TaskResult:
        return run_task(task, facts_of(task, **facts), Results(results or {}), max_bytes)

    return run


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., list[DAG]]:
    """Write a DAG file and load it."""

    def load(source: str, name: str = "pipeline.py") -> list[DAG]:
        path = tmp_path / name
        path.write_text(source)
        return load_file(path)

    return load
