"""Step 1, create runs: turn what the timetables say into queued runs."""

from collections.abc import Iterable

import structlog

from turnout.metadata.engine import Connection
from turnout.metadata.planning import upcoming_runs
from turnout.metadata.runs import DueDag, NewRun, NextRun, create_runs, lock_due_dags, next_run, set_next_runs
from turnout.scheduler.guard import TOGETHER, Each
from turnout.tasks.timetables import DagRunInfo

log = structlog.get_logger(__name__)


def create_due_runs(connection: Connection, limit: int, each: Each = TOGETHER) -> int:
    """Create the runs that are due, as many of each DAG as `max_active_runs` leaves room for.

    Args:
        connection: the transaction.
        limit: most DAGs to take in hand.
        each: how to deal with the DAGs; one by one when one of them makes trouble.

    Returns:
        How many runs were created.
    """
    due = lock_due_dags(connection, limit)
    return sum(each(due, lambda dags: _create(connection, dags), _words))


def _create(connection: Connection, dags: Iterable[DueDag]) -> int:
    new: list[NewRun] = []
    upcoming: list[NextRun] = []
    for dag in dags:
        try:
            due, following = _plan(dag)
        except Exception:  # a timetable that cannot be computed stops its own DAG only
            log.exception("dag.not_planned", dag_id=dag.dag_id)
            due, following = [], None
        new += [_new_run(dag.dag_id, run) for run in due]
        upcoming.append(next_run(dag.dag_id, following))
    created = create_runs(connection, new)
    set_next_runs(connection, upcoming)
    return len(created)


def _plan(dag: DueDag) -> tuple[list[DagRunInfo], DagRunInfo | None]:
    """Say which runs are due now, within the room that is left, and which one comes after them."""
    due: list[DagRunInfo] = []
    for run in upcoming_runs(dag.timing, dag.now):
        if run.run_after > dag.now or len(due) == dag.room:
            return due, run
        due.append(run)
    return due, None


def _new_run(dag_id: str, run: DagRunInfo) -> NewRun:
    return NewRun(
        dag_id=dag_id,
        run_id=f"scheduled__{run.logical_date.isoformat()}",
        run_type="scheduled",
        logical_date=run.logical_date,
        data_interval_start=run.data_interval.start,
        data_interval_end=run.data_interval.end,
        run_after=run.run_after,
    )


def _words(dag: DueDag) -> dict[str, str]:
    return {"dag_id": dag.dag_id, "step": "create_runs"}
