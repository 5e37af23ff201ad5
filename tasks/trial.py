"""`dag.test()`: one run of a DAG in this process, without servers."""

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from turnout.tasks.callbacks import Call, call_back, callbacks_of
from turnout.tasks.context import RunFacts
from turnout.tasks.deciding import Tasks, fails_run_fast, leaves, run_ending, verdict_on
from turnout.tasks.declaring import collecting
from turnout.tasks.errors import DagError
from turnout.tasks.running import TaskResult, run_task
from turnout.tasks.serialization import serialize
from turnout.tasks.trigger_rule import RUN, SKIP
from turnout.tasks.zones import as_utc

if TYPE_CHECKING:
    from turnout.tasks.dags import DAG
    from turnout.tasks.operator import BaseOperator

_log = logging.getLogger("turnout.dag.test")


@dataclass
class TrialResult:
    """How a test run of a DAG ended.

    Attributes:
        state: `success` or `failed`.
        tasks: the state of every task.
        results: what the tasks returned.
        errors: what went wrong in those that failed.
    """

    state: str = "running"
    tasks: dict[str, str] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def pull(self, dag_id: str, run_id: str, task_id: str, key: str, map_index: int) -> Any:  # noqa: ARG002
        """Return what a task of this run returned.

        Raises:
            LookupError: it returned nothing.
        """
        return self.results[task_id]


def try_dag(dag: "DAG", logical_date: datetime | None, conf: Mapping[str, Any] | None) -> TrialResult:
    """Run a DAG once, task after task.

    Raises:
        DagError: the DAG is not valid, or is being loaded.
        KeyboardInterrupt: the person has had enough.
    """
    if collecting() is not None:
        raise DagError(
            f'DAG {dag.dag_id!r}: call test() below `if __name__ == "__main__":`, not while the file is loaded.'
        )
    dag.validate()
    facts = _run_facts(dag, logical_date, conf)
    result = TrialResult()
    with _visible_logs():
        _log.info("DAG %s, run %s", dag.dag_id, facts["run_id"])
        tasks = serialize(dag)["tasks"]
        for task_id in dag.topological_order():
            result.tasks[task_id] = _blocked_by(dag, tasks, task_id, result) or _run_one(dag, task_id, facts, result)
            _log.info("Task %s: %s", task_id, result.tasks[task_id])
        result.state = run_ending({result.tasks[task_id]} for task_id in leaves(tasks))
        run = RunFacts(task_id="", attempt_id="", **facts)
        event = "success" if result.state == "success" else "failure"
        _call_back(dag, run, Call(event, result.state), result)
        _log.info("DAG %s: %s", dag.dag_id, result.state)
    return result


def _run_facts(dag: "DAG", logical_date: datetime | None, conf: Mapping[str, Any] | None) -> dict[str, Any]:
    if logical_date is None:
        interval = dag.timetable.manual_interval(datetime.now(UTC).replace(microsecond=0))
        date = interval.start
    else:
        date = as_utc(logical_date)
        interval = dag.timetable.interval_of(date)
    return {
        "dag_id": dag.dag_id,
        "run_id": f"manual__{date.isoformat()}",
        "run_type": "manual",
        "logical_date": date,
        "data_interval_start": interval.start,
        "data_interval_end": interval.end,
        "run_after": interval.end,
        "conf": dict(conf or {}),
    }


def _blocked_by(dag: "DAG", tasks: Tasks, task_id: str, result: TrialResult) -> str | None:
    """Return the state that a task gets without being run; None when it is to be run."""
    states = {other: {state} for other, state in result.tasks.items()}
    verdict = verdict_on(tasks, task_id, states)
    if verdict != RUN:
        return verdict
    is_over = dag.fail_fast and any(fails_run_fast(tasks, other, its) for other, its in states.items())
    return SKIP if is_over and not tasks[task_id]["is_teardown"] else None


def _run_one(dag: "DAG", task_id: str, facts: Mapping[str, Any], result: TrialResult) -> str:
    task = dag.get_task(task_id)
    ended = TaskResult("failed")
    for try_number in range(1, task.retries + 2):
        attempt = RunFacts(
            task_id=task_id, attempt_id=str(uuid4()), try_number=try_number, max_tries=task.retries, **facts
        )
        _call_back(task, attempt, Call("execute", "running"), result)
        ended = run_task(task, attempt, result)
        if ended.cause == "interrupted":
            raise KeyboardInterrupt
        if ended.error:
            _log.info("%s", ended.traceback or ended.error)
        if not (ended.outcome == "failed" and ended.retry):
            break
        if try_number <= task.retries:
            _call_back(task, attempt, Call("retry", "up_for_retry", error=ended.error), result)
            _log.info("Task %s: try %d of %d failed, trying again", task_id, try_number, task.retries + 1)
    if ended.return_value is not None:
        result.results[task_id] = json.loads(ended.return_value)
    if ended.outcome == "failed":
        result.errors[task_id] = ended.error or ""
    event = "failure" if ended.outcome == "failed" else ended.outcome
    error = ended.error if ended.outcome == "failed" else None  # why it was skipped is no error
    _call_back(task, attempt, Call(event, ended.outcome, error=error), result)
    return ended.outcome


def _call_back(owner: "BaseOperator | DAG", facts: RunFacts, call: Call, result: TrialResult) -> None:
    if callbacks_of(owner, call.event) and (problem := call_back(owner, facts, call, result)):
        _log.info("The on_%s_callback failed: %s", call.event, problem)


@contextmanager
def _visible_logs() -> Iterator[None]:
    """Show what tasks log on standard output, unless the program has set logging up by itself."""
    logger = logging.getLogger("turnout")
    if logging.getLogger().handlers or logger.handlers:
        yield
        return
    handler, level = logging.StreamHandler(sys.stdout), logger.level
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
