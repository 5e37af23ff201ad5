"""What a running task knows about its run."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from turnout.tasks.errors import DagError
from turnout.tasks.macros import ds, ds_nodash, macros, ts, ts_nodash, ts_nodash_with_tz
from turnout.tasks.run_views import DagRunView, TaskInstanceView

if TYPE_CHECKING:
    from turnout.tasks.dags import DAG
    from turnout.tasks.operator import BaseOperator
    from turnout.tasks.xcom import XComReader

#: Values by Airflow's names: `ds`, `ti`, `params`, …
Context = dict[str, Any]

_current: ContextVar[Context | None] = ContextVar("current_context", default=None)


@dataclass(frozen=True)
class RunFacts:
    """Everything about one attempt that the process which runs it must be told: plain data.

    Moments are aware and in UTC. `try_number` counts from 1; `max_tries` is the retries that the task has.
    """

    dag_id: str
    run_id: str
    task_id: str
    attempt_id: str
    run_type: str = "manual"
    logical_date: datetime | None = None
    data_interval_start: datetime | None = None
    data_interval_end: datetime | None = None
    run_after: datetime | None = None
    conf: dict[str, Any] = field(default_factory=dict)
    map_index: int = -1
    try_number: int = 1
    max_tries: int = 0


def build_context(task: "BaseOperator", facts: RunFacts, xcom: "XComReader") -> Context:
    """Gather what templates and task functions may ask for, under Airflow's names.

    Names that depend on a logical date or data interval are left out for a run that has none.
    """
    instance = TaskInstanceView(task, facts, xcom)
    context = build_run_context(task.dag, facts)
    if facts.logical_date is not None:
        context["task_instance_key_str"] = f"{facts.dag_id}__{facts.task_id}__{ds_nodash(facts.logical_date)}"
    return {
        **context,
        "map_index": facts.map_index,
        "params": {**({} if task.dag is None else task.dag.params), **task.params, **facts.conf},
        "task": task,
        "task_instance": instance,
        "ti": instance,
        "try_number": facts.try_number,
    }


def build_run_context(dag: "DAG | None", facts: RunFacts) -> Context:
    """Gather what is known about a run, its tasks left aside."""
    known = {
        "dag": dag,
        "dag_run": DagRunView(facts),
        "macros": macros(),
        "params": {**({} if dag is None else dag.params), **facts.conf},
        "run_id": facts.run_id,
        "test_mode": False,
        "data_interval_start": facts.data_interval_start,
        "data_interval_end": facts.data_interval_end,
        **_dated(facts),
    }
    own = {} if dag is None else dag.user_defined_macros
    return {**own, **{name: value for name, value in known.items() if value is not None}}


def get_current_context() -> Context:
    """Return what the running task knows about its run: `get_current_context()["ds"]`.

    Raises:
        DagError: no task is running here.
    """
    context = _current.get()
    if context is None:
        raise DagError("get_current_context() was called outside of a running task: call it inside a @task function.")
    return context


def is_task_running() -> bool:
    """Tell whether this is called by a running task."""
    return _current.get() is not None


@contextmanager
def current_context(context: Context) -> Iterator[None]:
    """Make a context that of the running task."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def _dated(facts: RunFacts) -> Context:
    date = facts.logical_date
    if date is None:
        return {}
    return {
        "logical_date": date,
        "ds": ds(date),
        "ds_nodash": ds_nodash(date),
        "ts": ts(date),
        "ts_nodash": ts_nodash(date),
        "ts_nodash_with_tz": ts_nodash_with_tz(date),
    }
