"""What `dag_run` and `ti` are in a task: read-only views of its run and of itself, with Airflow's attribute names."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from turnout.tasks.errors import XComError
from turnout.tasks.xcom import RETURN_VALUE

if TYPE_CHECKING:
    from turnout.tasks.context import RunFacts
    from turnout.tasks.operator import BaseOperator
    from turnout.tasks.xcom import XComReader


class DagRunView:
    """The run that the task is part of."""

    #: In callbacks, what the run was when they were called for.
    state: str = "running"
    start_date: datetime | None = None
    end_date: datetime | None = None

    def __init__(self, facts: "RunFacts") -> None:
        self.dag_id = facts.dag_id
        self.run_id = facts.run_id
        self.run_type = facts.run_type
        self.conf = facts.conf
        self.logical_date = facts.logical_date
        self.data_interval_start = facts.data_interval_start
        self.data_interval_end = facts.data_interval_end
        self.run_after = facts.run_after

    def __repr__(self) -> str:
        return f"<DagRun {self.dag_id} {self.run_id}>"


class TaskInstanceView:
    """The task instance that is running, or that a callback is called for."""

    #: In callbacks, what the task instance was when they were called for.
    state: str = "running"
    start_date: datetime | None = None
    end_date: datetime | None = None

    def __init__(self, task: "BaseOperator", facts: "RunFacts", xcom: "XComReader") -> None:
        self.task = task
        self.dag_id = facts.dag_id
        self.task_id = facts.task_id
        self.run_id = facts.run_id
        self.map_index = facts.map_index
        self.try_number = facts.try_number
        self.max_tries = facts.max_tries
        self.attempt_id = facts.attempt_id
        self.logical_date: datetime | None = facts.logical_date
        self._xcom = xcom

    @property
    def duration(self) -> float | None:
        """How long it ran, in seconds; None while it does."""
        is_over = self.start_date is not None and self.end_date is not None
        return (self.end_date - self.start_date).total_seconds() if is_over else None  # type: ignore[operator]

    def xcom_pull(  # noqa: PLR0917 - Airflow's signature
        self,
        task_ids: str | Iterable[str] | None = None,
        dag_id: str | None = None,
        key: str = RETURN_VALUE,
        map_indexes: int = -1,
        default: Any = None,
        run_id: str | None = None,
    ) -> Any:
        """Return the result of another task, or a list of the results of several.

        Args:
            task_ids: the task or tasks; this one by default.
            dag_id: their DAG; this one by default.
            key: `return_value`, or a key of a result that is a dict.
            map_indexes: the map index of a mapped task.
            default: what to return for a task that has no such result.
            run_id: their run; this one by default.
        """
        if task_ids is None or isinstance(task_ids, str):
            return self._pull(task_ids or self.task_id, dag_id, key, map_indexes, default, run_id)
        return [self._pull(task_id, dag_id, key, map_indexes, default, run_id) for task_id in task_ids]

    def xcom_push(self, key: str, value: Any) -> NoReturn:  # noqa: ARG002 - Airflow's signature
        """Refuse: only what a task returns is passed on."""
        raise XComError(f"xcom_push(key={key!r}) is not supported yet: return a dict that has this key.")

    def _pull(  # noqa: PLR0917 - the same
        self, task_id: str, dag_id: str | None, key: str, map_index: int, default: Any, run_id: str | None
    ) -> Any:
        try:
            value = self._xcom.pull(dag_id or self.dag_id, run_id or self.run_id, task_id, RETURN_VALUE, map_index)
        except LookupError:
            return default
        if key == RETURN_VALUE:
            return value
        return value.get(key, default) if isinstance(value, dict) else default

    def __repr__(self) -> str:
        return f"<TaskInstance {self.dag_id}.{self.task_id} {self.run_id} try {self.try_number}>"
