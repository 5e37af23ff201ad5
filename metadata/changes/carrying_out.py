"""Carrying out a plan: every statement that writes a state that a person has chosen."""

from collections.abc import Sequence

from sqlalchemy import Connection, text

from turnout.metadata.changes.locking import LockedTask
from turnout.metadata.changes.plan import Plan
from turnout.metadata.changes.waking import wake
from turnout.metadata.states import ACTIVE, Cause, RunState, TaskState
from turnout.metadata.tables import sql_list

_IS_ACTIVE = f"t.state IN ({sql_list(ACTIVE)})"

#: A clear empties the row, so that it is again as it was before its first attempt, but for the number of its tries.
_ARCHIVE = text(f"""
    INSERT INTO task_attempt (attempt_id, task_instance_id, try_number, queue, queued_at, started_at, ended_at,
                              scheduler_id, worker_id, outcome, cause, error)
    SELECT t.attempt_id, t.id, t.try_number, t.queue, t.queued_at, t.started_at,
           COALESCE(t.ended_at, clock_timestamp()), t.scheduler_id, t.worker_id,
           CASE WHEN {_IS_ACTIVE} THEN 'cancelled' ELSE t.outcome END,
           CASE WHEN {_IS_ACTIVE} THEN :cause ELSE t.cause END,
           CASE WHEN {_IS_ACTIVE} THEN :error ELSE t.error END
    FROM task_instance t WHERE t.id = ANY(:ids) AND t.attempt_id IS NOT NULL
""")  # noqa: S608  only constants of the law

#: The tries that the author allows begin anew; what the task asks for is read again, since its run may have moved to
#: another version of the DAG.
_CLEAR = text("""
    WITH spec AS MATERIALIZED (
        SELECT v.id AS version, s.key AS task_id, s.value
        FROM dag_version v, jsonb_each(v.content -> 'tasks') s
        WHERE v.id = ANY(ARRAY(
            SELECT r.dag_version_id FROM dag_run r WHERE r.id = ANY(CAST(:runs AS bigint[]))
        ))
    )
    UPDATE task_instance t
    SET state = 'none', attempt_id = NULL, infra_failures = 0,
        max_tries = t.try_number + (s.value ->> 'retries')::int, pool = s.value ->> 'pool',
        pool_slots = (s.value ->> 'pool_slots')::int, extra_pools = NULLIF(s.value -> 'extra_pools', 'null'),
        queue = s.value ->> 'queue', priority_weight = (s.value ->> 'priority_weight')::int,
        max_active_tis_per_dag = (s.value ->> 'max_active_tis_per_dag')::int,
        max_active_tis_per_dagrun = (s.value ->> 'max_active_tis_per_dagrun')::int,
        callbacks = (SELECT array_agg(c.event) FROM jsonb_array_elements_text(s.value -> 'callbacks') c (event)),
        scheduled_at = NULL, queued_at = NULL, started_at = NULL, ended_at = NULL, next_try_at = NULL,
        scheduler_id = NULL, worker_id = NULL, outcome = NULL, cause = NULL, error = NULL
    FROM dag_run r, spec s
    WHERE t.id = ANY(:ids) AND t.state <> 'none' AND r.id = t.dag_run_id
      AND s.version = r.dag_version_id AND s.task_id = t.task_id
""")

_FORGET_XCOMS = text("""
    DELETE FROM xcom x USING task_instance t
    WHERE t.id = ANY(:ids) AND x.dag_run_id = t.dag_run_id AND x.task_id = t.task_id AND x.map_index = t.map_index
""")

#: An attempt that had ended by itself keeps its outcome and its times; one that had not is cancelled now.
_SET = text(f"""
    UPDATE task_instance t
    SET state = n.state, next_try_at = NULL, ended_at = COALESCE(t.ended_at, clock_timestamp()),
        outcome = CASE WHEN {_IS_ACTIVE} THEN 'cancelled' ELSE t.outcome END,
        cause = CASE WHEN {_IS_ACTIVE} OR t.attempt_id IS NULL THEN :cause ELSE t.cause END,
        error = CASE WHEN {_IS_ACTIVE} OR t.attempt_id IS NULL THEN :error ELSE t.error END
    FROM unnest(CAST(:ids AS bigint[]), CAST(:befores AS text[]), CAST(:afters AS text[])) AS n (id, before, state)
    WHERE t.id = n.id AND t.state = n.before
""")  # noqa: S608  only constants of the law

_RESTART = text("""
    UPDATE dag_run r
    SET state = 'queued', queued_at = now(), started_at = NULL, ended_at = NULL, timeout_at = NULL,
        dag_version_id = COALESCE(:version, r.dag_version_id)
    WHERE r.id = ANY(:ids) AND r.state IN ('success', 'failed')
""")

_END = text("""
    UPDATE dag_run r SET state = n.state, timeout_at = NULL,
        ended_at = CASE WHEN n.before IN ('queued', 'running') THEN clock_timestamp() ELSE r.ended_at END
    FROM unnest(CAST(:ids AS bigint[]), CAST(:befores AS text[]), CAST(:afters AS text[])) AS n (id, before, state)
    WHERE r.id = n.id AND r.state = n.before
""")


def carry_out(connection: Connection, plan: Plan, cause: Cause, actor: str) -> None:
    """Write the new states of a plan, and wake the schedulers.

    Args:
        connection: the transaction, which holds all rows of the plan.
        plan: what to do.
        cause: why attempts end that are queued or running.
        actor: who does it.
    """
    said = {"cause": cause, "error": f"{cause.capitalize()} by {actor}."}
    _move_runs(connection, plan)
    _clear(connection, [task for task, state in plan.tasks if state == TaskState.NONE], said)
    _set(connection, [(task, state) for task, state in plan.tasks if state != TaskState.NONE], said)
    wake(connection, sorted({task.dag_run_id for task, _ in plan.tasks} | {run.id for run, _ in plan.runs}))


def _move_runs(connection: Connection, plan: Plan) -> None:
    again = [run.id for run, state in plan.runs if state == RunState.QUEUED]
    if again:
        connection.execute(_RESTART, {"ids": again, "version": plan.new_version_id})
    ended = [(run, state) for run, state in plan.runs if state != RunState.QUEUED]
    if ended:
        connection.execute(
            _END,
            {
                "ids": [run.id for run, _ in ended],
                "befores": [run.state for run, _ in ended],
                "afters": [state for _, state in ended],
            },
        )


def _clear(connection: Connection, tasks: Sequence[LockedTask], said: dict[str, str]) -> None:
    if tasks:
        ids = [task.id for task in tasks]
        connection.execute(_ARCHIVE, {"ids": ids, **said})
        connection.execute(_CLEAR, {"ids": ids, "runs": sorted({task.dag_run_id for task in tasks})})
        connection.execute(_FORGET_XCOMS, {"ids": ids})


def _set(connection: Connection, moves: Sequence[tuple[LockedTask, TaskState]], said: dict[str, str]) -> None:
    if moves:
        connection.execute(
            _SET,
            {
                "ids": [task.id for task, _ in moves],
                "befores": [task.state for task, _ in moves],
                "afters": [state for _, state in moves],
                **said,
            },
        )
