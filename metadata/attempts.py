"""The life of an attempt: claimed, finished, given back or lost; each step one compare-and-set for a whole batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from turnout.metadata.messages import LostAttempt, celery_worker
from turnout.metadata.states import Cause, Outcome, TaskState
from turnout.metadata.texts import storable


@dataclass(frozen=True)
class AttemptKey:
    """The identity of an attempt, as the message carries it."""

    task_instance_id: int
    attempt_id: UUID


@dataclass(frozen=True)
class ClaimedAttempt:
    """An attempt that this worker owns now, with all that it needs to run."""

    task_instance_id: int
    attempt_id: UUID
    dag_run_id: int
    dag_id: str
    task_id: str
    map_index: int
    try_number: int
    max_tries: int
    infra_failures: int
    run_id: str
    run_type: str
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    run_after: datetime
    conf: dict[str, Any]
    dag_version_id: int
    file_path: str

    @property
    def key(self) -> AttemptKey:
        """The identity of the attempt."""
        return AttemptKey(self.task_instance_id, self.attempt_id)


@dataclass(frozen=True)
class FinishedAttempt:
    """How an attempt ended, and the state that its task instance shall have."""

    key: AttemptKey
    state: TaskState
    outcome: Outcome
    cause: Cause | None = None
    error: str | None = None
    retry_delay_s: float | None = None  # with state up_for_retry
    return_value: str | None = None  # JSON of the XCom `return_value`


_CLAIM = text("""
    WITH claimed AS (
        UPDATE task_instance t
        SET state = 'running', started_at = clock_timestamp(), worker_id = :worker_id, try_number = t.try_number + 1
        FROM unnest(CAST(:ids AS bigint[]), CAST(:attempts AS uuid[])) AS m (id, attempt_id)
        WHERE t.id = m.id AND t.attempt_id = m.attempt_id AND t.state = 'queued'
          AND EXISTS (
              SELECT 1 FROM process p
              WHERE p.id = :worker_id AND p.state = 'alive' AND p.lease_expires_at > clock_timestamp()
          )
        RETURNING t.*
    )
    SELECT c.id AS task_instance_id, c.attempt_id, c.dag_run_id, c.dag_id, c.task_id, c.map_index, c.try_number,
           c.max_tries, c.infra_failures, r.run_id, r.run_type, r.logical_date, r.data_interval_start,
           r.data_interval_end, r.run_after, r.conf, r.dag_version_id, d.file_path
    FROM claimed c JOIN dag_run r ON r.id = c.dag_run_id JOIN dag d ON d.dag_id = c.dag_id
""")

_FINISH = text("""
    WITH given AS (
        SELECT * FROM unnest(
            CAST(:ids AS bigint[]), CAST(:attempts AS uuid[]), CAST(:states AS text[]), CAST(:outcomes AS text[]),
            CAST(:causes AS text[]), CAST(:errors AS text[]), CAST(:delays AS float8[]), CAST(:values AS text[])
        ) AS g (id, attempt_id, state, outcome, cause, error, delay_s, value)
    ), finished AS (
        UPDATE task_instance t
        SET state = g.state, outcome = g.outcome, cause = g.cause, error = g.error, ended_at = clock_timestamp(),
            scheduled_at = CASE WHEN g.state = 'scheduled' THEN clock_timestamp() ELSE t.scheduled_at END,
            next_try_at = clock_timestamp() + make_interval(secs => g.delay_s),
            infra_failures = t.infra_failures + CASE WHEN g.outcome = 'lost' THEN 1 ELSE 0 END
        FROM given g
        WHERE t.id = g.id AND t.attempt_id = g.attempt_id AND t.state = 'running'
        RETURNING t.id, t.attempt_id, t.dag_run_id, t.task_id, t.map_index, t.state
    ), woken AS (
        INSERT INTO wakeup (dag_run_id, task_id)
        SELECT dag_run_id, task_id FROM finished WHERE state IN ('success', 'failed', 'skipped')
    ), pushed AS (
        INSERT INTO xcom (dag_run_id, task_id, map_index, key, value)
        SELECT f.dag_run_id, f.task_id, f.map_index, 'return_value', CAST(g.value AS json)
        FROM finished f JOIN given g USING (id, attempt_id)
        WHERE g.value IS NOT NULL
        ON CONFLICT (dag_run_id, task_id, map_index, key)
        DO UPDATE SET value = EXCLUDED.value, created_at = now()
    )
    SELECT id, attempt_id FROM finished
""")

_GIVE_BACK = text("""
    UPDATE task_instance t
    SET state = 'scheduled', scheduled_at = clock_timestamp(), ended_at = clock_timestamp(),
        outcome = 'returned', cause = :cause
    FROM unnest(CAST(:ids AS bigint[]), CAST(:attempts AS uuid[])) AS m (id, attempt_id)
    WHERE t.id = m.id AND t.attempt_id = m.attempt_id AND t.state = 'queued'
    RETURNING t.id, t.attempt_id
""")

#: Seen and locked are two steps, so that an attempt that began in between is not taken for the one before it.
_LOSE_BY_DEAD_WORKERS = text("""
    WITH seen AS MATERIALIZED (
        SELECT t.id, t.attempt_id FROM task_instance t LEFT JOIN process p ON p.id = t.worker_id
        WHERE t.state = 'running' AND COALESCE(p.state, 'dead') <> 'alive'
    ), orphaned AS (
        SELECT t.id FROM task_instance t JOIN seen USING (id, attempt_id)
        WHERE t.state = 'running' ORDER BY t.id FOR UPDATE OF t SKIP LOCKED
    ), lost AS (
        UPDATE task_instance t
        SET state = CASE WHEN t.infra_failures < :max_infra_retries THEN 'scheduled' ELSE 'failed' END,
            infra_failures = t.infra_failures + 1, outcome = 'lost', cause = 'worker_lost',
            error = 'The worker that ran this attempt was lost.' || CASE
                WHEN t.infra_failures < :max_infra_retries THEN ''
                ELSE format(' Given up: %s attempts were lost (max_infra_retries).', t.infra_failures + 1)
            END, scheduled_at = clock_timestamp(),
            ended_at = clock_timestamp()
        FROM orphaned o WHERE t.id = o.id AND t.state = 'running'
        RETURNING t.id, t.attempt_id, t.dag_run_id, t.task_id, t.state, t.error, t.worker_id
    ), woken AS (
        INSERT INTO wakeup (dag_run_id, task_id) SELECT dag_run_id, task_id FROM lost WHERE state = 'failed'
    )
    SELECT l.id, l.attempt_id, l.state, l.error, p.name, p.hostname
    FROM lost l LEFT JOIN process p ON p.id = l.worker_id
""")

_UNPUBLISHED_BY_DEAD_SCHEDULERS = text("""
    WITH seen AS MATERIALIZED (
        SELECT t.id, t.attempt_id FROM task_instance t LEFT JOIN process p ON p.id = t.scheduler_id
        WHERE t.state = 'queued' AND COALESCE(p.state, 'dead') <> 'alive'
    ), orphaned AS (
        SELECT t.id FROM task_instance t JOIN seen USING (id, attempt_id)
        WHERE t.state = 'queued' ORDER BY t.id FOR UPDATE OF t SKIP LOCKED
    )
    UPDATE task_instance t
    SET state = 'scheduled', scheduled_at = clock_timestamp(), ended_at = clock_timestamp(),
        outcome = 'returned', cause = 'scheduler_lost'
    FROM orphaned o WHERE t.id = o.id AND t.state = 'queued'
    RETURNING t.id, t.attempt_id
""")

_RUNNING_ON = text("SELECT id, attempt_id FROM task_instance WHERE state = 'running' AND worker_id = :worker_id")


def claim_queued(connection: Connection, worker_id: int, keys: Sequence[AttemptKey]) -> list[ClaimedAttempt]:
    """Claim the attempts of a batch of messages: `queued` → `running`.

    An attempt that is not returned is not this worker's to run: the message was a duplicate or stale, or the worker's
    own lease is over.
    """
    rows = connection.execute(_CLAIM, {"worker_id": worker_id, **_columns(keys)})
    return [ClaimedAttempt(**row) for row in rows.mappings()]


def finish_if_running(connection: Connection, attempts: Sequence[FinishedAttempt]) -> list[AttemptKey]:
    """Write the outcomes of a batch of attempts, their return values, and the wake-ups that they give.

    An attempt that is not returned was refused: it is no longer the current one of its task instance.
    """
    batch = sorted(attempts, key=lambda attempt: attempt.key.task_instance_id)
    rows = connection.execute(
        _FINISH,
        {
            **_columns([attempt.key for attempt in batch]),
            "states": [attempt.state for attempt in batch],
            "outcomes": [attempt.outcome for attempt in batch],
            "causes": [attempt.cause for attempt in batch],
            "errors": [attempt.error and storable(attempt.error) for attempt in batch],
            "delays": [attempt.retry_delay_s for attempt in batch],
            "values": [attempt.return_value for attempt in batch],
        },
    )
    return [AttemptKey(row.id, row.attempt_id) for row in rows]


def give_back_queued(connection: Connection, keys: Sequence[AttemptKey], cause: Cause) -> list[AttemptKey]:
    """Return attempts that never started to `scheduled`; the next queueing gives them a new attempt id."""
    rows = connection.execute(_GIVE_BACK, {**_columns(keys), "cause": cause})
    return [AttemptKey(row.id, row.attempt_id) for row in rows]


def lose_by_dead_workers(connection: Connection, max_infra_retries: int) -> list[LostAttempt]:
    """End the attempts of workers that are no longer alive: scheduled again, or failed above the limit."""
    rows = connection.execute(_LOSE_BY_DEAD_WORKERS, {"max_infra_retries": max_infra_retries})
    return [
        LostAttempt(
            row.id,
            row.attempt_id,
            worker=None if row.name is None else celery_worker(row.name, row.hostname),
            is_tried_again=row.state == TaskState.SCHEDULED,
            error=row.error,
        )
        for row in rows
    ]


def give_back_by_dead_schedulers(connection: Connection) -> list[AttemptKey]:
    """Return to `scheduled` what schedulers that are no longer alive had queued, published or not."""
    return [AttemptKey(row.id, row.attempt_id) for row in connection.execute(_UNPUBLISHED_BY_DEAD_SCHEDULERS)]


def running_on(connection: Connection, worker_id: int) -> set[AttemptKey]:
    """List the attempts that the database believes to run on a worker."""
    return {AttemptKey(row.id, row.attempt_id) for row in connection.execute(_RUNNING_ON, {"worker_id": worker_id})}


def _columns(keys: Sequence[AttemptKey]) -> dict[str, list[Any]]:
    return {"ids": [key.task_instance_id for key in keys], "attempts": [key.attempt_id for key in keys]}
