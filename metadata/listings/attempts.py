"""The attempts of a task instance as people read them, earlier ones included."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from turnout.metadata.listings.task_instances import TaskInstanceRow, show_task_instance
from turnout.metadata.states import Outcome


@dataclass(frozen=True)
class AttemptRow:
    """One attempt: how it came about, who ran it, and how it ended."""

    attempt_id: UUID
    try_number: int  # for one that never started: the number that it would have had
    is_current: bool
    outcome: str | None
    cause: str | None
    error: str | None
    queue: str
    queued_when: datetime | None
    start_date: datetime | None
    end_date: datetime | None
    duration: float | None  # seconds
    scheduler: str | None
    worker: str | None
    hostname: str | None


#: An attempt counts as a try when it starts; until then the row has the number of the tries before.
_ATTEMPTS = text("""
    WITH attempt AS (
        SELECT attempt_id, try_number, true AS is_current, outcome, cause, error, queue, queued_at, started_at,
               ended_at, scheduler_id, worker_id
        FROM task_instance WHERE id = :id AND attempt_id IS NOT NULL
        UNION ALL
        SELECT attempt_id, try_number, false, outcome, cause, error, queue, queued_at, started_at, ended_at,
               scheduler_id, worker_id
        FROM task_attempt WHERE task_instance_id = :id
    )
    SELECT a.attempt_id, a.try_number + CASE WHEN a.started_at IS NULL THEN 1 ELSE 0 END AS try_number, a.is_current,
           a.outcome, a.cause, a.error, a.queue, a.queued_at AS queued_when, a.started_at AS start_date,
           a.ended_at AS end_date, CAST(extract(epoch FROM a.ended_at - a.started_at) AS float8) AS duration,
           COALESCE(s.name, 'process ' || a.scheduler_id) AS scheduler,
           COALESCE(w.name, 'process ' || a.worker_id) AS worker, w.hostname
    FROM attempt a
    LEFT JOIN process s ON s.id = a.scheduler_id
    LEFT JOIN process w ON w.id = a.worker_id
    ORDER BY a.queued_at, a.attempt_id
""")


def list_attempts(connection: Connection, task_instance_id: int) -> list[AttemptRow]:
    """List the attempts of a task instance, the first one first."""
    return [AttemptRow(**row) for row in connection.execute(_ATTEMPTS, {"id": task_instance_id}).mappings()]


def last_try(attempts: Sequence[AttemptRow]) -> list[AttemptRow]:
    """Choose the last attempt, and with it those just before that were lost or returned: they tell why it was made."""
    first = len(attempts) - 1
    while first > 0 and attempts[first - 1].outcome in (Outcome.LOST, Outcome.RETURNED):
        first -= 1
    return list(attempts[first:])


def show_with_attempts(
    connection: Connection, dag_id: str, run_id: str, task_id: str, map_index: int
) -> tuple[TaskInstanceRow, list[AttemptRow]]:
    """Read one task instance and its attempts.

    Raises:
        NotFoundError: there is no such DAG, run, task or map index.
    """
    instance = show_task_instance(connection, dag_id, run_id, task_id, map_index)
    return instance, list_attempts(connection, instance.id)
