"""Step 1, create runs: turn what the timetables say into queued runs."""

import structlog

from turnout.metadata.engine import Connection
from turnout.metadata.runs import DueDag, NewRun, NextRun, create_runs, lock_due_dags, set_next_runs
from turnout.metadata.versions import VersionCache
from turnout.scheduler.planning import next_run_row, plan_next
from turnout.tasks.timetables import PlannedRun

log = structlog.get_logger(__name__)


def create_due_runs(connection: Connection, versions: VersionCache, limit: int) -> int:
    """Create the runs that are due, as many of each DAG as `max_active_runs` leaves room for.

    Args:
        connection: the transaction.
        versions: contents of DAG versions.
        limit: most DAGs to take in hand.

    Returns:
        How many runs were created.
    """
    new: list[NewRun] = []
    upcoming: list[NextRun] = []
    for dag in lock_due_dags(connection, versions, limit):
        try:
            due, following = _plan(dag)
        except Exception:  # a timetable that cannot be computed stops its own DAG only
            log.exception("dag.not_planned", dag_id=dag.dag_id)
            due, following = [], None
        new += [_new_run(dag.dag_id, planned) for planned in due]
        upcoming.append(next_run_row(dag.dag_id, following))
    created = create_runs(connection, new)
    set_next_runs(connection, upcoming)
    return len(created)


def _plan(dag: DueDag) -> tuple[list[PlannedRun], PlannedRun | None]:
    """Say which runs are due now, within the room that is left, and which one comes after them."""
    due: list[PlannedRun] = []
    last = dag.last_interval
    planned = plan_next(dag.content, last, dag.now)
    while planned and planned.run_after <= dag.now and len(due) < dag.room:
        if planned.logical_date not in dag.taken:
            due.append(planned)
        last = (planned.data_interval.start, planned.data_interval.end)
        planned = plan_next(dag.content, last, dag.now)
    return due, planned


def _new_run(dag_id: str, planned: PlannedRun) -> NewRun:
    return NewRun(
        dag_id=dag_id,
        run_id=f"scheduled__{planned.logical_date.isoformat()}",
        run_type="scheduled",
        logical_date=planned.logical_date,
        data_interval_start=planned.data_interval.start,
        data_interval_end=planned.data_interval.end,
        run_after=planned.run_after,
    )
