"""DAG runs as people read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from turnout.metadata.listings.dags import require_dag
from turnout.metadata.listings.missing import no_such
from turnout.metadata.listings.page import Page, first
from turnout.metadata.listings.versions import DagVersionRow


@dataclass(frozen=True)
class RunRow:
    """A DAG run."""

    dag_run_id: str
    dag_id: str
    run_type: str
    state: str
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    run_after: datetime
    queued_at: datetime
    start_date: datetime | None
    end_date: datetime | None
    duration: float | None  # seconds
    priority: int
    conf: dict[str, Any]
    dag_versions: list[DagVersionRow]


_SELECT = """
    SELECT r.run_id AS dag_run_id, r.dag_id, r.run_type, r.state, r.logical_date, r.data_interval_start,
           r.data_interval_end, r.run_after, r.queued_at, r.started_at AS start_date, r.ended_at AS end_date,
           CAST(extract(epoch FROM r.ended_at - r.started_at) AS float8) AS duration, r.priority, r.conf,
           v.id, v.version_number, v.created_at
    FROM dag_run r LEFT JOIN dag_version v ON v.id = r.dag_version_id
"""

_LIST = text(f"""{_SELECT}
    WHERE (CAST(:dag_id AS text) IS NULL OR r.dag_id = :dag_id)
      AND (CAST(:state AS text) IS NULL OR r.state = :state)
    ORDER BY r.id DESC LIMIT :limit
""")

_SHOW = text(f"{_SELECT} WHERE r.id = :id")


def list_runs(
    connection: Connection, limit: int, *, dag_id: str | None = None, state: str | None = None
) -> Page[RunRow]:
    """List runs, the newest first.

    Raises:
        NotFoundError: there is no such DAG.
    """
    rows = connection.execute(_LIST, {"dag_id": dag_id, "state": state, "limit": limit + 1}).mappings().all()
    if dag_id is not None and not rows:
        require_dag(connection, dag_id)
    return first(map(_run, rows), limit)


def show_run(connection: Connection, dag_id: str, run_id: str) -> RunRow:
    """Read one run.

    Raises:
        NotFoundError: there is no such DAG, or no such run of it.
    """
    return _run(connection.execute(_SHOW, {"id": find_run(connection, dag_id, run_id)}).mappings().one())


def find_run(connection: Connection, dag_id: str, run_id: str) -> int:
    """Return the key of a run's row.

    Raises:
        NotFoundError: there is no such DAG, or no such run of it.
    """
    key = connection.scalar(
        text("SELECT id FROM dag_run WHERE dag_id = :dag_id AND run_id = :run_id"),
        {"dag_id": dag_id, "run_id": run_id},
    )
    if key is None:
        require_dag(connection, dag_id)
        known = connection.scalars(
            text("SELECT run_id FROM dag_run WHERE dag_id = :dag_id ORDER BY id DESC LIMIT 1000"), {"dag_id": dag_id}
        )
        raise no_such(f"run of DAG {dag_id} called", run_id, known, f"See `turnout runs list {dag_id}`.")
    return int(key)


def _run(row: Mapping[Any, Any]) -> RunRow:
    values = dict(row)
    number, id_, created_at = values.pop("version_number"), values.pop("id"), values.pop("created_at")
    versions = [] if id_ is None else [DagVersionRow(id_, number, row["dag_id"], created_at)]
    return RunRow(**values, dag_versions=versions)
