"""DAG runs: created, started and finished by schedulers; triggered by people."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from turnout.metadata.planning import Timing, upcoming_runs
from turnout.metadata.states import UNFINISHED, RunState
from turnout.metadata.tables import sql_list
from turnout.metadata.timings import TIMING_COLUMNS, TIMING_TABLES, read_timings, timings
from turnout.tasks.timetables import DagRunInfo


@dataclass(frozen=True)
class DueDag:
    """A DAG whose next scheduled run may be created now; its row is locked."""

    dag_id: str
    timing: Timing
    room: int  # runs that may be created before max_active_runs is reached
    now: datetime


@dataclass(frozen=True)
class NewRun:
    """A run to create, whoever wants it."""

    dag_id: str
    run_id: str
    run_type: str  # one of `RUN_TYPES`
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    run_after: datetime
    conf: dict[str, Any] = field(default_factory=dict)
    priority: int = 0  # its tasks go before those of all runs of lower priority
    backfill_id: int | None = None


@dataclass(frozen=True)
class NextRun:
    """The run that a DAG's timetable will create next; all None when there will be none."""

    dag_id: str
    logical_date: datetime | None = None
    data_interval_start: datetime | None = None
    data_interval_end: datetime | None = None
    run_after: datetime | None = None


@dataclass(frozen=True)
class FinishedRun:
    """A run that has come to its end."""

    id: int
    dag_id: str
    run_id: str
    state: RunState


#: Runs of the timetable that have not finished; above max_active_runs no further ones are created, so that a long
#: catch-up never fills the table.
OPEN_RUNS = """(
    SELECT count(*) FROM dag_run r
    WHERE r.dag_id = d.dag_id AND r.state IN ('queued', 'running') AND r.run_type = 'scheduled'
)"""

_LOCK_DUE_DAGS = text(f"""
    SELECT {TIMING_COLUMNS}, d.max_active_runs - {OPEN_RUNS} AS room FROM {TIMING_TABLES}
    WHERE d.is_active AND NOT d.is_paused AND d.next_run_after <= now() AND d.max_active_runs > {OPEN_RUNS}
    ORDER BY d.next_run_after
    LIMIT :limit
    FOR NO KEY UPDATE OF d SKIP LOCKED
""")  # noqa: S608  only constants of this package

_CREATE = text("""
    INSERT INTO dag_run (dag_id, run_id, run_type, dag_version_id, logical_date, data_interval_start,
                         data_interval_end, run_after, conf, priority, backfill_id)
    SELECT n.dag_id, n.run_id, n.run_type, d.current_version_id, n.logical_date, n.data_interval_start,
           n.data_interval_end, n.run_after, n.conf, n.priority, n.backfill_id
    FROM jsonb_to_recordset(CAST(:runs AS jsonb)) AS n (
        dag_id text, run_id text, run_type text, logical_date timestamptz, data_interval_start timestamptz,
        data_interval_end timestamptz, run_after timestamptz, conf jsonb, priority int, backfill_id bigint
    ) JOIN dag d ON d.dag_id = n.dag_id
    ON CONFLICT DO NOTHING
    RETURNING id, dag_id, run_id
""")

_SET_NEXT = text("""
    UPDATE dag d
    SET next_logical_date = n.logical_date, next_interval_start = n.data_interval_start,
        next_interval_end = n.data_interval_end, next_run_after = n.run_after
    FROM jsonb_to_recordset(CAST(:runs AS jsonb)) AS n (
        dag_id text, logical_date timestamptz, data_interval_start timestamptz, data_interval_end timestamptz,
        run_after timestamptz
    )
    WHERE d.dag_id = n.dag_id
""")

_FINISH = text(f"""
    UPDATE dag_run r SET state = n.state, ended_at = now()
    FROM unnest(CAST(:ids AS bigint[]), CAST(:states AS text[])) AS n (id, state)
    WHERE r.id = n.id AND r.state = 'running'
      AND NOT EXISTS (
          SELECT 1 FROM task_instance t
          WHERE t.dag_run_id = r.id
            AND t.state IN ({sql_list(UNFINISHED)})
      )
    RETURNING r.id, r.dag_id, r.run_id, r.state
""")  # noqa: S608  only constants of the law


def lock_due_dags(connection: Connection, limit: int) -> list[DueDag]:
    """Lock the DAGs whose next run is due, except those that another scheduler has locked."""
    rows = connection.execute(_LOCK_DUE_DAGS, {"limit": limit}).all()
    known = zip(timings(connection, rows), rows, strict=True)
    return [DueDag(row.dag_id, timing, row.room, row.now) for timing, row in known]


def create_runs(connection: Connection, new: Sequence[NewRun]) -> list[str]:
    """Create runs in state `queued`; one whose run id or logical date exists already is left out.

    Returns:
        The run ids that were created.
    """
    if not new:
        return []
    return [row.run_id for row in connection.execute(_CREATE, {"runs": _json(new)})]


def set_next_runs(connection: Connection, upcoming: Sequence[NextRun]) -> None:
    """Record the next run of each DAG's timetable."""
    if upcoming:
        connection.execute(_SET_NEXT, {"runs": _json(upcoming)})


def plan_next(connection: Connection, dag_ids: Collection[str]) -> None:
    """Record the next run of each DAG anew, since what it depends on has changed."""
    upcoming = []
    for timing, now in read_timings(connection, dag_ids):
        upcoming.append(next_run(timing.dag_id, next(upcoming_runs(timing, now), None)))
    set_next_runs(connection, upcoming)


def next_run(dag_id: str, run: DagRunInfo | None) -> NextRun:
    """Say in the database's words which run of a timetable comes next."""
    return NextRun(dag_id, run.logical_date, *run.data_interval, run.run_after) if run else NextRun(dag_id)


def finish_running(connection: Connection, states: dict[int, RunState]) -> list[FinishedRun]:
    """Finish those of some runs of which no task instance is unfinished; return them."""
    if not states:
        return []
    rows = connection.execute(_FINISH, {"ids": list(states), "states": list(states.values())})
    return [FinishedRun(row.id, row.dag_id, row.run_id, RunState(row.state)) for row in rows]


def _json(rows: Sequence[NewRun | NextRun]) -> str:
    return json.dumps([vars(row) for row in rows], default=datetime.isoformat)
