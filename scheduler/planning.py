"""Which run of a DAG comes next: the timetable of its content, applied to what has run."""

from datetime import datetime
from typing import Any

from turnout.metadata.runs import NextRun
from turnout.metadata.versions import Content
from turnout.tasks.timetables import DataInterval, PlannedRun, timetable_from_json

#: All that the next run depends on, by the keys of a DAG's content.
TIMING_KEYS = ("schedule", "start_date", "end_date", "catchup")


def plan_next(content: Content, last_interval: tuple[datetime, datetime] | None, now: datetime) -> PlannedRun | None:
    """Say which scheduled run of a DAG comes next, be it due or still to come.

    Args:
        content: the content of the DAG's version.
        last_interval: the data interval of the DAG's last scheduled run, if there was one.
        now: the present moment.
    """
    return timetable_from_json(content["schedule"]).next_run(
        last=DataInterval(*last_interval) if last_interval else None,
        start=_moment(content["start_date"]),
        end=_moment(content["end_date"]),
        catchup=content["catchup"],
        now=now,
    )


def timing_of(content: Content) -> dict[str, Any]:
    """Return the part of a DAG's content that its next run depends on."""
    return {key: content[key] for key in TIMING_KEYS}


def next_run_row(dag_id: str, planned: PlannedRun | None) -> NextRun:
    """Say in the database's words which run comes next."""
    if planned is None:
        return NextRun(dag_id)
    interval = planned.data_interval
    return NextRun(dag_id, planned.logical_date, interval.start, interval.end, planned.run_after)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
