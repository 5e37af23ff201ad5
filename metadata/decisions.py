"""What a scheduler reads and writes to decide: news of runs, states of upstreams, new states of task instances.

All of it happens while the run's row is locked, so that one scheduler at a time decides for a run. The cost follows
the news: only tasks downstream of something that changed are read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from turnout.metadata.states import ACTIVE, GOOD_PAST, UNFINISHED, Cause, TaskState
from turnout.metadata.tables import sql_list


@dataclass(frozen=True)
class LockedRun:
    """A run whose row this transaction holds."""

    id: int
    dag_id: str
    run_id: str
    dag_version_id: int


@dataclass(frozen=True)
class RunNews(LockedRun):
    """A locked run, and what changed in it since the last decision."""

    is_running: bool
    changed: frozenset[str] | None  # task ids; None: look at all of it


#: An array, since PostgreSQL's guess at the size of a table like `wakeup` is any, and a join might read all of dag_run.
_LOCK_RUNS = text("""
    SELECT r.id, r.dag_id, r.run_id, r.dag_version_id, r.state FROM dag_run r
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

#: Whether the run before, which is the one of the next earlier logical date, lets tasks run. A task that it does not
#: have is no hindrance, but one that it will only have when it has started is. `removed` means: not there any more.
_PAST = text(f"""
    WITH before AS MATERIALIZED (
        SELECT u.id AS dag_run_id, p.*
        FROM unnest(CAST(:of_runs AS bigint[])) AS u (id)
        LEFT JOIN LATERAL (
            SELECT b.* FROM dag_run r
            CROSS JOIN LATERAL (
                SELECT n.id, n.state, n.started_at FROM dag_run n
                WHERE n.dag_id = r.dag_id AND n.logical_date < r.logical_date
                ORDER BY n.logical_date DESC LIMIT 1
            ) b
            WHERE r.id = u.id LIMIT 1
        ) p ON true
    )
    SELECT q.dag_run_id, q.task_id,
           bool_and(b.id IS NULL OR COALESCE(i.is_good, b.started_at IS NOT NULL OR b.state = 'success')) AS is_good
    FROM unnest(CAST(:runs AS bigint[]), CAST(:tasks AS text[]), CAST(:needs AS text[]))
         AS q (dag_run_id, task_id, need)
    JOIN before b ON b.dag_run_id = q.dag_run_id
    LEFT JOIN LATERAL (
        SELECT bool_and(t.state IN ({sql_list(GOOD_PAST)})) AS is_good FROM task_instance t
        WHERE t.dag_run_id = b.id AND t.task_id = q.need
    ) i ON true
    GROUP BY q.dag_run_id, q.task_id
""")  # noqa: S608  only constants of the law

#: Left in the transaction that makes the news: a decision for the next run either sees them, or its wake-up is younger.
_WAKE_NEXT = text("""
    WITH next AS MATERIALIZED (
        SELECT u.id AS dag_run_id, p.id, p.state
        FROM unnest(CAST(:of_runs AS bigint[])) AS u (id)
        CROSS JOIN LATERAL (
            SELECT a.* FROM dag_run r
            CROSS JOIN LATERAL (
                SELECT n.id, n.state FROM dag_run n
                WHERE n.dag_id = r.dag_id AND n.logical_date > r.logical_date
                ORDER BY n.logical_date LIMIT 1
            ) a
            WHERE r.id = u.id LIMIT 1
        ) p
    )
    INSERT INTO wakeup (dag_run_id, task_id)
    SELECT n.id, q.task_id
    FROM unnest(CAST(:runs AS bigint[]), CAST(:tasks AS text[])) AS q (dag_run_id, task_id)
    JOIN next n ON n.dag_run_id = q.dag_run_id
    WHERE n.state = 'running' AND (
        SELECT bool_or(t.state = 'none') FROM task_instance t
        WHERE t.dag_run_id = n.id AND t.task_id = q.task_id
    )
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

_LOCK_TIMED_OUT = text("""
    SELECT r.id, r.dag_id, r.run_id, r.dag_version_id FROM dag_run r
    WHERE r.state = 'running' AND r.timeout_at <= now()
    ORDER BY r.timeout_at LIMIT :limit
    FOR NO KEY UPDATE OF r SKIP LOCKED
""")

_STOP = text(f"""
    WITH chosen AS (
        SELECT t.id, t.state FROM task_instance t
        WHERE t.dag_run_id = ANY(:runs) AND t.state IN ({sql_list(UNFINISHED)})
          AND (t.dag_run_id, t.task_id) NOT IN (
              SELECT k.* FROM unnest(CAST(:kept_runs AS bigint[]), CAST(:kept_tasks AS text[])) AS k
          )
        ORDER BY t.id
        FOR UPDATE OF t
    )
    UPDATE task_instance t
    SET state = CASE WHEN c.state = 'running' THEN :running_becomes ELSE 'skipped' END,
        outcome = CASE WHEN c.state IN ({sql_list(ACTIVE)}) THEN 'cancelled' ELSE t.outcome END,
        cause = :cause, error = :error, ended_at = clock_timestamp(), next_try_at = NULL
    FROM chosen c WHERE t.id = c.id AND t.state = c.state
    RETURNING t.dag_run_id, t.task_id
""")  # noqa: S608  only constants of the law

_SCHEDULE_DUE = text("""
    WITH due AS MATERIALIZED (
        SELECT id FROM task_instance
        WHERE state IN ('up_for_retry', 'up_for_reschedule') AND next_try_at <= now()
        ORDER BY next_try_at LIMIT :limit
        FOR UPDATE SKIP LOCKED
    )
    UPDATE task_instance t SET state = 'scheduled', scheduled_at = clock_timestamp()
    FROM due d WHERE t.id = d.id AND t.state IN ('up_for_retry', 'up_for_reschedule')
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
            id=row.id,
            dag_id=row.dag_id,
            run_id=row.run_id,
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


def read_past(connection: Connection, wanted: Mapping[int, Mapping[str, Iterable[str]]]) -> dict[int, dict[str, bool]]:
    """Tell whether tasks may run as far as the run before their own is concerned.

    Args:
        connection: the transaction.
        wanted: for each run the tasks, each with those that must have succeeded, or been skipped, in the run before.
    """
    rows = [(run, task, need) for run, tasks in wanted.items() for task, needs in tasks.items() for need in needs]
    found: dict[int, dict[str, bool]] = {run: {} for run in wanted}
    if rows:
        runs, tasks, needs = map(list, zip(*rows, strict=True))
        for row in connection.execute(
            _PAST, {"of_runs": sorted(set(runs)), "runs": runs, "tasks": tasks, "needs": needs}
        ):
            found[row.dag_run_id][row.task_id] = row.is_good
    return found


def wake_next_runs(connection: Connection, waiting: Mapping[int, Iterable[str]]) -> None:
    """Ask for a look at tasks of the runs that come next, which may wait for the end of something in these.

    Args:
        connection: the transaction that makes it end.
        waiting: for each run that has news, the tasks that may wait in the next one.
    """
    pairs = [(run, task) for run, tasks in waiting.items() for task in sorted(tasks)]
    if pairs:
        runs, tasks = map(list, zip(*pairs, strict=True))
        connection.execute(_WAKE_NEXT, {"of_runs": sorted(set(runs)), "runs": runs, "tasks": tasks})


def set_states(connection: Connection, decided: Sequence[tuple[int, str, TaskState]]) -> int:
    """Move the instances of (run, task) from `none` to a decided state; return how many moved."""
    if not decided:
        return 0
    runs, tasks, states = zip(*decided, strict=True)
    return connection.execute(_SET_STATES, {"runs": list(runs), "tasks": list(tasks), "states": list(states)}).rowcount


def without_unfinished(connection: Connection, runs: Sequence[int]) -> set[int]:
    """Tell which of some runs have no unfinished task instance left."""
    return set(runs) - set(connection.scalars(_UNFINISHED, {"runs": list(runs)})) if runs else set()


def lock_timed_out(connection: Connection, limit: int) -> list[LockedRun]:
    """Lock the running runs whose `dagrun_timeout` is over, except those that another scheduler has locked."""
    return [LockedRun(**row) for row in connection.execute(_LOCK_TIMED_OUT, {"limit": limit}).mappings()]


def stop_for_failure(connection: Connection, kept: Mapping[int, Iterable[str]]) -> dict[int, set[str]]:
    """Stop all that is unfinished in runs in which a task failed: what runs is cancelled, the rest is skipped.

    Args:
        connection: the transaction.
        kept: the runs, each with the tasks that go on.

    Returns:
        For each run the tasks that were stopped.
    """
    return _stop(connection, kept, TaskState.FAILED, Cause.FAIL_FAST, "Another task of the run failed (fail_fast).")


def stop_for_timeout(connection: Connection, runs: Iterable[int]) -> dict[int, set[str]]:
    """Skip all that is unfinished in runs whose time is over; return the tasks by run."""
    error = "The run took longer than its dagrun_timeout."
    return _stop(connection, dict.fromkeys(runs, ()), TaskState.SKIPPED, Cause.RUN_TIMEOUT, error)


def schedule_due(connection: Connection, limit: int) -> int:
    """Schedule the task instances whose retry or reschedule is due; return how many."""
    return connection.execute(_SCHEDULE_DUE, {"limit": limit}).rowcount


def _stop(
    connection: Connection, kept: Mapping[int, Iterable[str]], running_becomes: TaskState, cause: Cause, error: str
) -> dict[int, set[str]]:
    pairs = [(run, task) for run, tasks in kept.items() for task in tasks]
    rows = connection.execute(
        _STOP,
        {
            "runs": list(kept),
            "kept_runs": [run for run, _ in pairs],
            "kept_tasks": [task for _, task in pairs],
            "running_becomes": running_becomes,
            "cause": cause,
            "error": error,
        },
    )
    stopped: dict[int, set[str]] = {run: set() for run in kept}
    for row in rows:
        stopped[row.dag_run_id].add(row.task_id)
    return stopped


def _changed(tasks: Sequence[str | None]) -> frozenset[str] | None:
    return None if None in tasks else frozenset(task for task in tasks if task is not None)
