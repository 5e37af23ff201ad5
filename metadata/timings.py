"""What the runs to come of DAGs depend on, as it stands in the database."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, text

from turnout.metadata.planning import Timing
from turnout.tasks.schedule import CatchUp
from turnout.tasks.timetables import DagRunInfo, DataInterval

#: Of a statement that reads `dag d` and `TIMING_TABLES`; `timings` turns its rows into `Timing`s.
TIMING_COLUMNS = """
    d.dag_id, d.scheduled_since, v.content -> 'schedule' AS schedule, v.content ->> 'start_date' AS start_date,
    v.content ->> 'end_date' AS end_date, v.content ->> 'catchup' AS catchup,
    CAST(v.content ->> 'jitter_s' AS float8) AS jitter_s, l.last_start, l.last_end, now() AS now,
    ARRAY(
        SELECT r.logical_date FROM dag_run r
        WHERE r.dag_id = d.dag_id AND r.logical_date >= COALESCE(l.last_date, '-infinity')
    ) AS taken
"""
TIMING_TABLES = """
    dag d JOIN dag_version v ON v.id = d.current_version_id
    LEFT JOIN LATERAL (
        SELECT r.data_interval_start AS last_start, r.data_interval_end AS last_end, r.logical_date AS last_date
        FROM dag_run r
        WHERE r.dag_id = d.dag_id AND r.run_type = 'scheduled' AND r.logical_date IS NOT NULL
        ORDER BY r.logical_date DESC LIMIT 1
    ) l ON true
"""

_READ = text(f"SELECT {TIMING_COLUMNS} FROM {TIMING_TABLES} WHERE d.dag_id = ANY(:dag_ids)")  # noqa: S608  constants

#: Of a timetable of an author's own: what is planned from the last scheduled run on.
_READ_PLANS = text("""
    SELECT dag_id, interval_start, interval_end, run_after FROM planned_run
    WHERE dag_id = ANY(:dag_ids) ORDER BY dag_id, interval_start
""")


def read_timings(connection: Connection, dag_ids: Collection[str]) -> list[tuple[Timing, datetime]]:
    """Read what the runs to come of DAGs depend on, each with the time of the transaction."""
    rows = connection.execute(_READ, {"dag_ids": sorted(dag_ids)}).all()
    return [(timing, row.now) for timing, row in zip(timings(connection, rows), rows, strict=True)]


def timings(connection: Connection, rows: Sequence[Row[Any]]) -> list[Timing]:
    """Turn the columns `TIMING_COLUMNS` of a result into what the runs to come depend on."""
    plans = read_plans(connection, [row.dag_id for row in rows if row.schedule["type"] == "custom"])
    return [
        Timing(
            dag_id=row.dag_id,
            schedule=row.schedule,
            start=_moment(row.start_date),
            end=_moment(row.end_date),
            catchup=CatchUp(row.catchup),
            jitter=timedelta(seconds=row.jitter_s or 0),
            last=DataInterval(row.last_start, row.last_end) if row.last_start else None,
            since=row.scheduled_since,
            taken=frozenset(row.taken),
            planned=plans.get(row.dag_id, ()),
        )
        for row in rows
    ]


def read_plans(connection: Connection, dag_ids: Iterable[str]) -> dict[str, list[DagRunInfo]]:
    """Read the runs that were planned ahead, by DAG and in order; without a DAG to ask for nothing is read."""
    plans: dict[str, list[DagRunInfo]] = {}
    if wanted := sorted(dag_ids):
        for row in connection.execute(_READ_PLANS, {"dag_ids": wanted}):
            run = DagRunInfo(row.run_after, DataInterval(row.interval_start, row.interval_end))
            plans.setdefault(row.dag_id, []).append(run)
    return plans


def _moment(iso: str | None) -> datetime | None:
    return None if iso is None else datetime.fromisoformat(iso)
