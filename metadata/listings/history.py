"""Everything that a DAG has ever run, to be looked back upon."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text


@dataclass(frozen=True)
class PastAttempt:
    """One attempt of a task of the DAG."""

    attempt_id: UUID
    dag_run_id: str
    task_id: str
    pool: str
    pool_slots: int
    queue: str
    queued_when: datetime
    start_date: datetime | None
    end_date: datetime | None
    outcome: str | None
    cause: str | None
    scheduler: str | None
    worker: str | None


_ATTEMPTS = text("""
    WITH attempt AS (
        SELECT id, attempt_id, queue, queued_at, started_at, ended_at, outcome, cause, scheduler_id, worker_id
        FROM task_instance WHERE dag_id = :dag_id AND attempt_id IS NOT NULL
        UNION ALL
        SELECT a.task_instance_id, a.attempt_id, a.queue, a.queued_at, a.started_at, a.ended_at, a.outcome, a.cause,
               a.scheduler_id, a.worker_id
        FROM task_attempt a JOIN task_instance t ON t.id = a.task_instance_id WHERE t.dag_id = :dag_id
    )
    SELECT a.attempt_id, r.run_id AS dag_run_id, t.task_id, t.pool, t.pool_slots, a.queue, a.queued_at AS queued_when,
           a.started_at AS start_date, a.ended_at AS end_date, a.outcome, a.cause, s.name AS scheduler, w.name AS worker
    FROM attempt a
    JOIN task_instance t ON t.id = a.id
    JOIN dag_run r ON r.id = t.dag_run_id
    LEFT JOIN process s ON s.id = a.scheduler_id
    LEFT JOIN process w ON w.id = a.worker_id
    ORDER BY a.queued_at, a.attempt_id
""")


def list_past_attempts(connection: Connection, dag_id: str) -> list[PastAttempt]:
    """List all attempts of a DAG, in the order in which they were queued."""
    return [PastAttempt(**row) for row in connection.execute(_ATTEMPTS, {"dag_id": dag_id}).mappings()]


def read_clock(connection: Connection) -> datetime:
    """Tell the time by the clock that writes every other time of the database."""
    moment: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
    return moment
