"""What a scheduler reads and writes to decide: news of runs, states of upstreams, new states of task instances.

All of it happens while the run's row is locked, so that one scheduler at a time decides for a run. The cost follows
the news: only tasks downstream of something that changed are read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from turnout.metadata.states import UNFINISHED, TaskState
from turnout.metadata.tables import sql_list


@dataclass(frozen=True)
class RunNews:
    """A locked run, and what changed in it since the last decision."""

    dag_run_id: int
    dag_version_id: int
    is_running: bool
    changed: frozenset[str] | None  # task ids; None: look at all of it


#: An array, since PostgreSQL's guess at the size of a table like `wakeup` is any, and a join might read all of dag_run.
_LOCK_RUNS = text("""
    SELECT r.id, r.dag_version_id, r.state FROM dag_run r
    WHERE r.id = ANY(ARRAY(SELECT w.dag_run_id FROM wakeup w ORDER BY w.id LIMIT :limit))
    ORDER BY r.id
    FOR NO KEY UPDATE OF r SKIP LOCKED
""")

_TAKE_WAKEUPS = text("""
    WITH taken AS (DELETE FROM wakeup WHERE dag_run_id = ANY(:runs) RETURNING dag_run_id, task_id)
    SELECT dag_run_id, array_agg(DISTINCT task_id) AS tasks FROM taken GROUP BY dag_run_id
""")

_STATES = text("""
    SELECT t.dag_run_id, t.task_id, array_agg(DISTINCT t.state) AS states
    FROM unnest(CAST(:runs AS bigint[]), CAST(:tasks AS text[])) AS q (dag_run_id, task_id)
    JOIN task_instance t ON t.dag_run_id = q.dag_run_id AND t.task_id = q.task_id
    GROUP BY t.dag_run_id, t.task_id
""")

_SET_STATES = text("""
    UPDATE task_instance t
    SET state = d.state,
        scheduled_at = CASE WHEN d.state = 'scheduled' THEN clock_timestamp() END,
        started_at = CASE WHEN d.state = 'success' THEN clock_timestamp() END,
        ended_at = CASE WHEN d.state <> 'scheduled' THEN clock_timestamp() END
    FROM unnest(CAST(:runs AS bigint[]), CAST(:tasks AS text[]), CAST(:states AS text[]))
         AS d (dag_run_id, task_id, state)
    WHERE t.dag_run_id = d.dag_run_id AND t.task_id = d.task_id AND t.state = 'none'
""")

_UNFINISHED = text(f"""
    SELECT q.id FROM unnest(CAST(:runs AS bigint[])) AS q (id)
    WHERE EXISTS (
        SELECT 1 FROM task_instance t
        WHERE t.dag_run_id = q.id
          AND t.state IN ({sql_list(UNFINISHED)})
    )
""")  # noqa: S608  only constants of the law

_SCHEDULE_DUE = text("""
    UPDATE task_instance SET state = 'scheduled', scheduled_at = clock_timestamp()
    WHERE id IN (
        SELECT id FROM task_instance
        WHERE state IN ('up_for_retry', 'up_for_reschedule') AND next_try_at <= now()
        ORDER BY next_try_at LIMIT :limit
        FOR UPDATE SKIP LOCKED
    ) AND state IN ('up_for_retry', 'up_for_reschedule')
""")


def lock_runs_with_news(connection: Connection, limit: int) -> list[RunNews]:
    """Lock the runs that have wake-ups, take their wake-ups, and say what they are about.

    Runs that another scheduler has locked are left to it.
    """
    locked = connection.execute(_LOCK_RUNS, {"limit": limit}).all()
    if not locked:
        return []
    taken = connection.execute(_TAKE_WAKEUPS, {"runs": [row.id for row in locked]})
    tasks: dict[int, list[str | None]] = {row.dag_run_id: row.tasks for row in taken}
    return [
        RunNews(
            dag_run_id=row.id,
            dag_version_id=row.dag_version_id,
            is_running=row.state == "running",
            changed=_changed(tasks[row.id]),
        )
        for row in locked
        if row.id in tasks
    ]


def read_states(connection: Connection, wanted: Mapping[int, Iterable[str]]) -> dict[int, dict[str, set[TaskState]]]:
    """Read the distinct states of the instances of some tasks of some runs."""
    pairs = [(run, task) for run, tasks in wanted.items() for task in tasks]
    found: dict[int, dict[str, set[TaskState]]] = {run: {} for run in wanted}
    if pairs:
        runs, tasks = zip(*pairs, strict=True)
        for row in connection.execute(_STATES, {"runs": list(runs), "tasks": list(tasks)}):
            found[row.dag_run_id][row.task_id] = {TaskState(state) for state in row.states}
    return found


def set_states(connection: Connection, decided: Sequence[tuple[int, str, TaskState]]) -> int:
    """Move the instances of (run, task) from `none` to a decided state; return how many moved."""
    if not decided:
        return 0
    runs, tasks, states = zip(*decided, strict=True)
    return connection.execute(_SET_STATES, {"runs": list(runs), "tasks": list(tasks), "states": list(states)}).rowcount


def without_unfinished(connection: Connection, runs: Sequence[int]) -> set[int]:
    """Tell which of some runs have no unfinished task instance left."""
    return set(runs) - set(connection.scalars(_UNFINISHED, {"runs": list(runs)})) if runs else set()


def schedule_due(connection: Connection, limit: int) -> int:
    """Schedule the task instances whose retry or reschedule is due; return how many."""
    return connection.execute(_SCHEDULE_DUE, {"limit": limit}).rowcount


def _changed(tasks: Sequence[str | None]) -> frozenset[str] | None:
    return None if None in tasks else frozenset(task for task in tasks if task is not None)
