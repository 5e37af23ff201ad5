"""One DAG with all that its current version declares."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from graphlib import TopologicalSorter
from typing import Any

from sqlalchemy import Connection, text

from turnout.metadata.listings.dags import DAG_COLUMNS, DagRow, require_dag, shown
from turnout.metadata.listings.versions import DagVersionRow
from turnout.metadata.planning import jitter_shift
from turnout.metadata.versions import Content
from turnout.tasks.schedule import CatchUp


@dataclass(frozen=True)
class DagTaskRow:
    """A task that a DAG declares."""

    task_id: str
    operator_name: str
    downstream_task_ids: list[str]
    trigger_rule: str
    retries: int
    retry_delay: float  # seconds
    retry_exponential_backoff: float
    execution_timeout: float | None  # seconds
    pool: str
    pool_slots: int
    queue: str
    priority_weight: int
    owner: str | None
    doc_md: str | None


@dataclass(frozen=True)
class DagDetails(DagRow):
    """A DAG with all that its current version declares."""

    start_date: datetime | None
    end_date: datetime | None
    catchup: bool  # whether any run but the latest is made up for when it was missed
    catchup_policy: str
    jitter: float | None  # seconds
    jitter_shift: float  # seconds by which its scheduled runs start later
    params: dict[str, Any]
    doc_md: str | None
    owners: list[str]
    active_runs_count: int
    latest_dag_version: DagVersionRow
    tasks: list[DagTaskRow]


_SHOW = text(f"""
    SELECT {DAG_COLUMNS}, v.id, v.version_number, v.created_at, v.content,
           (SELECT count(*) FROM dag_run r WHERE r.dag_id = d.dag_id AND r.state IN ('queued', 'running')) AS active
    FROM dag d JOIN dag_version v ON v.id = d.current_version_id
    WHERE d.dag_id = :dag_id
""")  # noqa: S608  only constants of that module


def show_dag(connection: Connection, dag_id: str) -> DagDetails:
    """Read one DAG.

    Raises:
        NotFoundError: there is none of that name.
    """
    require_dag(connection, dag_id)
    row = connection.execute(_SHOW, {"dag_id": dag_id}).mappings().one()
    content: Content = row["content"]
    return DagDetails(
        **shown(row),
        start_date=moment(content["start_date"]),
        end_date=moment(content["end_date"]),
        catchup=content["catchup"] in (CatchUp.ALL, CatchUp.COALESCE),
        catchup_policy=content["catchup"],
        jitter=content["jitter_s"],
        jitter_shift=jitter_shift(dag_id, timedelta(seconds=content["jitter_s"] or 0)).total_seconds(),
        params=content["params"],
        doc_md=content["doc_md"],
        owners=sorted({task["owner"] for task in content["tasks"].values() if task["owner"]}),
        active_runs_count=row["active"],
        latest_dag_version=DagVersionRow(row["id"], row["version_number"], dag_id, row["created_at"]),
        tasks=[_task(task_id, content["tasks"][task_id]) for task_id in _upstream_first(content["tasks"])],
    )


def moment(iso: str | None) -> datetime | None:
    """Read a moment of a DAG's content."""
    return datetime.fromisoformat(iso) if iso else None


def _upstream_first(tasks: Mapping[str, Any]) -> Iterable[str]:
    return TopologicalSorter({task_id: tasks[task_id]["upstream"] for task_id in sorted(tasks)}).static_order()


def _task(task_id: str, task: Mapping[str, Any]) -> DagTaskRow:
    return DagTaskRow(
        task_id=task_id,
        operator_name=task["operator"],
        downstream_task_ids=task["downstream"],
        trigger_rule=task["trigger_rule"],
        retries=task["retries"],
        retry_delay=task["retry_delay_s"],
        retry_exponential_backoff=task["retry_exponential_backoff"],
        execution_timeout=task["execution_timeout_s"],
        pool=task["pool"],
        pool_slots=task["pool_slots"],
        queue=task["queue"],
        priority_weight=task["priority_weight"],
        owner=task["owner"],
        doc_md=task["doc_md"],
    )
