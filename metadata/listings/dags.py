"""DAGs as people read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from turnout.metadata.listings.missing import no_such
from turnout.metadata.listings.page import Page, first
from turnout.tasks.errors import DagError
from turnout.tasks.timetables import timetable_from_json


@dataclass(frozen=True)
class DagTag:
    """A tag of a DAG."""

    name: str
    dag_id: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class DagRow:
    """A DAG in a listing."""

    dag_id: str
    is_paused: bool
    is_stale: bool  # no file declares it any longer
    relative_fileloc: str
    description: str | None
    timetable_summary: str | None
    tags: list[DagTag]
    max_active_runs: int
    has_import_errors: bool
    last_parsed_time: datetime | None
    next_dagrun_logical_date: datetime | None
    next_dagrun_data_interval_start: datetime | None
    next_dagrun_data_interval_end: datetime | None
    next_dagrun_run_after: datetime | None


#: What `shown` turns into a row; of the tables `dag d` and `dag_version v`.
DAG_COLUMNS = """
    d.dag_id, d.is_paused, NOT d.is_active AS is_stale, d.file_path AS relative_fileloc, d.description,
    v.content -> 'schedule' AS schedule, d.tags, d.max_active_runs,
    EXISTS (SELECT 1 FROM import_error e WHERE e.file_path = d.file_path) AS has_import_errors,
    d.parsed_at AS last_parsed_time, d.next_logical_date AS next_dagrun_logical_date,
    d.next_interval_start AS next_dagrun_data_interval_start, d.next_interval_end AS next_dagrun_data_interval_end,
    d.next_run_after AS next_dagrun_run_after
"""

_LIST = text(f"""
    SELECT {DAG_COLUMNS} FROM dag d LEFT JOIN dag_version v ON v.id = d.current_version_id
    WHERE d.is_active
      AND (CAST(:is_paused AS boolean) IS NULL OR d.is_paused = :is_paused)
      AND (CAST(:tag AS text) IS NULL OR CAST(:tag AS text) = ANY(d.tags))
    ORDER BY d.dag_id LIMIT :limit
""")  # noqa: S608  only constants of this module


def list_dags(
    connection: Connection, limit: int, *, is_paused: bool | None = None, tag: str | None = None
) -> Page[DagRow]:
    """List the DAGs that files declare, by name.

    Args:
        connection: where to read.
        limit: the most rows.
        is_paused: only those that are, or are not, paused.
        tag: only those that bear it.
    """
    rows = connection.execute(_LIST, {"is_paused": is_paused, "tag": tag, "limit": limit + 1})
    return first((DagRow(**shown(row)) for row in rows.mappings()), limit)


def require_dag(connection: Connection, dag_id: str) -> None:
    """Refuse the name of a DAG that does not exist.

    Raises:
        NotFoundError: there is none of that name; the message has the name that was probably meant.
    """
    known = set(
        connection.scalars(text("SELECT dag_id FROM dag WHERE is_active OR dag_id = :asked"), {"asked": dag_id})
    )
    if dag_id not in known:
        look = "See `turnout dags list`, and `turnout dags import-errors` for broken files."
        raise no_such("DAG", dag_id, known, look)


def shown(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Turn the columns `DAG_COLUMNS` of a result into the fields of a `DagRow`."""
    schedule = row["schedule"]
    return {
        **{name: row[name] for name in DagRow.__dataclass_fields__ if name in row},
        "timetable_summary": _summary(schedule) if schedule else None,
        "tags": [DagTag(tag, row["dag_id"]) for tag in row["tags"]],
    }


def _summary(schedule: dict[str, Any]) -> str:
    """Say how a person would write a timetable, or that this version cannot read what an earlier one stored."""
    try:
        return timetable_from_json(schedule).summary
    except (DagError, ValueError, KeyError) as error:
        return f"unreadable: {error}"
