"""Runs that people start by hand."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from turnout.metadata import audit
from turnout.metadata.errors import ConflictError, RequestError
from turnout.metadata.listings.dags import require_dag
from turnout.metadata.listings.runs import RunRow, show_run
from turnout.metadata.runs import NewRun, create_runs
from turnout.metadata.timings import read_plans
from turnout.metadata.wakeups import notify_schedulers
from turnout.tasks.timetables import DataInterval, Timetable, timetable_from_json
from turnout.tasks.xcom import complain

#: More than anybody needs, and far from the end of the column.
HIGHEST_PRIORITY = 1_000_000
#: Airflow's default rule (`allowed_run_id_pattern`), less the names that mean something in a path.
_RUN_ID = re.compile(r"(?!\.+$)[A-Za-z0-9_.~:+-]{1,250}")


@dataclass(frozen=True)
class Trigger:
    """What a person asks for."""

    dag_id: str
    run_id: str | None = None  # None: `manual__` and the logical date
    logical_date: datetime | None = None  # None: now
    conf: dict[str, Any] = field(default_factory=dict)
    priority: int = 0  # its tasks go before those of all runs of lower priority


@dataclass(frozen=True)
class Triggered:
    """The run that was created, and whether its DAG is paused, so that it waits."""

    run: RunRow
    dag_is_paused: bool


_DAG = text("""
    SELECT d.is_active, d.is_paused, d.file_path, v.content -> 'schedule' AS schedule, now() AS now
    FROM dag d JOIN dag_version v ON v.id = d.current_version_id
    WHERE d.dag_id = :dag_id
""")


def trigger(connection: Connection, wanted: Trigger, *, actor: str) -> Triggered:
    """Create a run in state `queued` for the data interval that the DAG's timetable gives a run by hand.

    Raises:
        NotFoundError: there is no such DAG.
        ConflictError: no file declares the DAG any longer, or it has such a run already.
        RequestError: a run cannot have such an id or conf.
    """
    if complaint := complain(wanted.conf, "the conf"):
        raise RequestError(complaint)
    if abs(wanted.priority) > HIGHEST_PRIORITY:
        raise RequestError(
            f"A priority is a whole number from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}: not {wanted.priority}."
        )
    if wanted.run_id is not None and not _RUN_ID.fullmatch(wanted.run_id):
        raise RequestError(
            f"A run id may hold only A-Z a-z 0-9 _ . ~ : + -, at most 250 of them: not {wanted.run_id!r}."
        )
    require_dag(connection, wanted.dag_id)
    dag = connection.execute(_DAG, {"dag_id": wanted.dag_id}).one()
    if not dag.is_active:
        raise ConflictError(f"DAG {wanted.dag_id} is no longer declared by {dag.file_path}: it cannot run.")
    planned = read_plans(connection, [wanted.dag_id]).get(wanted.dag_id, ())
    new = _plan(timetable_from_json(dag.schedule, planned), wanted, dag.now)
    if not create_runs(connection, [new]):
        raise _conflict(connection, new)
    audit.record(
        connection,
        actor,
        "run.trigger",
        dag_id=new.dag_id,
        run_id=new.run_id,
        conf=new.conf,
        priority=new.priority,
    )
    notify_schedulers(connection)
    return Triggered(show_run(connection, new.dag_id, new.run_id), dag.is_paused)


def _plan(timetable: Timetable, wanted: Trigger, now: datetime) -> NewRun:
    logical_date = wanted.logical_date or now
    interval = _interval(timetable, wanted.logical_date, now)
    return NewRun(
        dag_id=wanted.dag_id,
        run_id=wanted.run_id or f"manual__{logical_date.isoformat()}",
        run_type="manual",
        logical_date=logical_date,
        data_interval_start=interval.start,
        data_interval_end=interval.end,
        run_after=now,
        conf=wanted.conf,
        priority=wanted.priority,
    )


def _interval(timetable: Timetable, logical_date: datetime | None, now: datetime) -> DataInterval:
    """Choose the interval that a scheduled run of that logical date has; else the latest that has closed."""
    if logical_date is None:
        return timetable.manual_interval(now)
    try:
        return timetable.interval_of(logical_date)
    except OverflowError:
        raise RequestError(
            f"{logical_date.isoformat()} is too near to the first or the last day of the calendar for a data interval."
        ) from None


def _conflict(connection: Connection, new: NewRun) -> ConflictError:
    row = connection.execute(
        text("""
            SELECT run_id, state FROM dag_run
            WHERE dag_id = :dag_id AND (run_id = :run_id OR logical_date = :logical_date)
            ORDER BY run_id <> :run_id LIMIT 1
        """),
        {"dag_id": new.dag_id, "run_id": new.run_id, "logical_date": new.logical_date},
    ).one()
    if row.run_id == new.run_id:
        return ConflictError(f"DAG {new.dag_id} has a run {row.run_id} already ({row.state}): choose another run id.")
    return ConflictError(
        f"DAG {new.dag_id} has a run for that logical date already: {row.run_id} ({row.state}). Choose another date."
    )
