"""The runs that a DAG's timetable will create."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from turnout.metadata.listings.dag_details import moment
from turnout.metadata.listings.dags import require_dag
from turnout.tasks.timetables import DataInterval, PlannedRun, timetable_from_json


@dataclass(frozen=True)
class UpcomingRun:
    """A run that is to come."""

    dag_id: str
    logical_date: datetime
    data_interval_start: datetime
    data_interval_end: datetime
    run_after: datetime


_TIMING = text("""
    SELECT v.content -> 'schedule' AS schedule, v.content ->> 'start_date' AS start_date,
           v.content ->> 'end_date' AS end_date, CAST(v.content ->> 'catchup' AS boolean) AS catchup,
           l.last_start, l.last_end, now() AS now
    FROM dag d JOIN dag_version v ON v.id = d.current_version_id
    LEFT JOIN LATERAL (
        SELECT r.data_interval_start AS last_start, r.data_interval_end AS last_end FROM dag_run r
        WHERE r.dag_id = d.dag_id AND r.run_type = 'scheduled' AND r.logical_date IS NOT NULL
        ORDER BY r.logical_date DESC LIMIT 1
    ) l ON true
    WHERE d.dag_id = :dag_id
""")


def list_upcoming(connection: Connection, dag_id: str, count: int) -> list[UpcomingRun]:
    """Preview the next runs of a DAG as if it were not paused; none when its timetable has no more.

    Raises:
        NotFoundError: there is no such DAG.
    """
    require_dag(connection, dag_id)
    planned = _plan(connection.execute(_TIMING, {"dag_id": dag_id}).one(), count)
    return [
        UpcomingRun(dag_id, run.logical_date, run.data_interval.start, run.data_interval.end, run.run_after)
        for run in planned
    ]


def _plan(timing: Row[Any], count: int) -> list[PlannedRun]:
    timetable = timetable_from_json(timing.schedule)
    start, end = moment(timing.start_date), moment(timing.end_date)
    last = DataInterval(timing.last_start, timing.last_end) if timing.last_start else None
    planned: list[PlannedRun] = []
    while len(planned) < count:
        run = timetable.next_run(last, start, end, timing.catchup, timing.now)
        if run is None:
            break
        planned.append(run)
        last = run.data_interval
    return planned
