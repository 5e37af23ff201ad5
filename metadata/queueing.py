"""The critical section: which of the waiting task instances are queued now.

Only schedulers raise the use of a pool, and only while they hold its row: the slots in use are read in a statement
after the one that took the lock, whose snapshot therefore holds all that earlier owners of the lock had committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

from turnout.metadata.identity import new_attempt_id
from turnout.metadata.messages import AttemptMessage


@dataclass(frozen=True)
class LockedPool:
    """A pool whose row this transaction holds."""

    name: str
    slots: int


@dataclass(frozen=True)
class LiveWorker:
    """A worker that holds its lease, and what it could take."""

    id: int
    queues: frozenset[str]
    pools: frozenset[str] | None  # None: all
    slots: int
    finished_per_s: float


@dataclass(frozen=True)
class ActiveCount:
    """How many attempts of a Celery queue are queued, or run on one worker, and the pool slots that they use."""

    pool: str
    queue: str
    worker_id: int | None  # None: queued, not yet claimed
    attempts: int
    pool_slots: int


@dataclass(frozen=True)
class Candidate:
    """A task instance that waits for a slot."""

    id: int
    pool: str
    queue: str
    pool_slots: int


_LOCK_POOLS = text("""
    SELECT p.name, p.slots FROM pool p
    WHERE EXISTS (SELECT 1 FROM task_instance t WHERE t.state = 'scheduled' AND t.pool = p.name)
    ORDER BY p.name
    FOR NO KEY UPDATE OF p SKIP LOCKED
""")

_POOLS_WITH_WORK = text("""
    SELECT count(*) FROM pool p
    WHERE EXISTS (SELECT 1 FROM task_instance t WHERE t.state = 'scheduled' AND t.pool = p.name)
""")

_WORKERS = text("""
    SELECT id, queues, pools, slots, COALESCE(finished_per_s, 0) AS finished_per_s FROM process
    WHERE kind = 'worker' AND state = 'alive' AND lease_expires_at > clock_timestamp()
""")

_ACTIVE = text("""
    SELECT pool, queue, CASE WHEN state = 'running' THEN worker_id END AS worker_id,
           count(*) AS attempts, sum(pool_slots) AS pool_slots
    FROM task_instance
    WHERE state IN ('queued', 'running')
    GROUP BY 1, 2, 3
""")

_CANDIDATES = text("""
    SELECT t.id, t.pool, t.queue, t.pool_slots
    FROM unnest(CAST(:pools AS text[]), CAST(:queues AS text[]), CAST(:limits AS bigint[])) AS q (pool, queue, most)
    CROSS JOIN LATERAL (
        SELECT s.id, s.pool, s.queue, s.pool_slots, s.priority_weight, s.run_date
        FROM task_instance s JOIN dag d ON d.dag_id = s.dag_id JOIN pool p ON p.name = s.pool
        WHERE s.state = 'scheduled' AND s.pool = q.pool AND s.queue = q.queue AND NOT d.is_paused
          AND s.pool_slots <= p.slots
        ORDER BY s.priority_weight DESC, s.run_date, s.id
        LIMIT q.most
    ) t
    ORDER BY t.priority_weight DESC, t.run_date, t.id
""")

_QUEUE = text("""
    WITH chosen AS (
        SELECT t.*, c.attempt_id AS new_attempt_id
        FROM unnest(CAST(:ids AS bigint[]), CAST(:attempts AS uuid[])) AS c (id, attempt_id)
        JOIN task_instance t ON t.id = c.id
        WHERE t.state = 'scheduled'
          AND EXISTS (
              SELECT 1 FROM process p
              WHERE p.id = :scheduler_id AND p.state = 'alive' AND p.lease_expires_at > clock_timestamp()
          )
        ORDER BY t.id
        FOR UPDATE OF t
    ), archived AS (
        INSERT INTO task_attempt (attempt_id, task_instance_id, try_number, queue, queued_at, started_at, ended_at,
                                  scheduler_id, worker_id, outcome, cause, error)
        SELECT attempt_id, id, try_number, queue, queued_at, started_at, ended_at, scheduler_id, worker_id, outcome,
               cause, error
        FROM chosen WHERE attempt_id IS NOT NULL
    ), queued AS (
        UPDATE task_instance t
        SET state = 'queued', attempt_id = c.new_attempt_id, queued_at = clock_timestamp(),
            scheduler_id = :scheduler_id, worker_id = NULL, started_at = NULL, ended_at = NULL, next_try_at = NULL,
            outcome = NULL, cause = NULL, error = NULL
        FROM chosen c WHERE t.id = c.id AND t.state = 'scheduled'
        RETURNING t.id, t.attempt_id, t.dag_id, t.dag_run_id, t.task_id, t.map_index, t.try_number, t.pool, t.queue
    )
    SELECT q.id, q.attempt_id, q.dag_id, r.run_id, q.task_id, q.map_index, q.try_number + 1 AS try_number, q.pool,
           q.queue
    FROM queued q JOIN dag_run r ON r.id = q.dag_run_id
""")

_UNCLAIMED = text("""
    SELECT t.id, t.attempt_id, t.pool, t.queue, t.queued_at < now() - make_interval(secs => :patience_s) AS is_late
    FROM task_instance t
    WHERE t.state = 'queued'
    ORDER BY t.queued_at, t.id
""")

_MISSING_POOLS = text("""
    SELECT t.pool, count(*) AS waiting FROM task_instance t
    WHERE t.state = 'scheduled' AND NOT EXISTS (SELECT 1 FROM pool p WHERE p.name = t.pool)
    GROUP BY t.pool ORDER BY t.pool
""")


def lock_pools_with_work(connection: Connection) -> list[LockedPool]:
    """Lock the pools that have waiting task instances, in name order, except those locked by another scheduler."""
    return [LockedPool(row.name, row.slots) for row in connection.execute(_LOCK_POOLS)]


def count_pools_with_work(connection: Connection) -> int:
    """Count the pools that have waiting task instances, locked or not."""
    return int(connection.scalar(_POOLS_WITH_WORK) or 0)


def live_workers(connection: Connection) -> list[LiveWorker]:
    """List the workers that hold their lease."""
    return [
        LiveWorker(
            id=row.id,
            queues=frozenset(row.queues or ()),
            pools=None if row.pools is None else frozenset(row.pools),
            slots=row.slots or 0,
            finished_per_s=row.finished_per_s,
        )
        for row in connection.execute(_WORKERS)
    ]


def count_active(connection: Connection) -> list[ActiveCount]:
    """Count what is queued and running; read it after the pools are locked."""
    return [
        ActiveCount(row.pool, row.queue, row.worker_id, row.attempts, int(row.pool_slots))
        for row in connection.execute(_ACTIVE)
    ]


def read_candidates(connection: Connection, limits: Sequence[tuple[str, str, int]]) -> list[Candidate]:
    """Read the first waiting task instances of each (pool, queue, most), in the order in which they may start.

    The order is one for all pools, since workers may be shared by them. Left out are those of paused DAGs, and those
    that need more slots than their pool has in all.
    """
    if not limits:
        return []
    pools, queues, most = zip(*limits, strict=True)
    rows = connection.execute(_CANDIDATES, {"pools": list(pools), "queues": list(queues), "limits": list(most)})
    return [Candidate(row.id, row.pool, row.queue, row.pool_slots) for row in rows]


def queue_scheduled(connection: Connection, scheduler_id: int, ids: Sequence[int]) -> list[AttemptMessage]:
    """Queue task instances: `scheduled` → `queued`, each with a new attempt id; archive the attempts before.

    Returns:
        The messages to publish once this transaction is committed, in the order given; nothing when the scheduler's
        term is over.
    """
    if not ids:
        return []
    rows = connection.execute(
        _QUEUE,
        {"scheduler_id": scheduler_id, "ids": list(ids), "attempts": [new_attempt_id() for _ in ids]},
    ).all()
    place = {id_: number for number, id_ in enumerate(ids)}
    return [
        AttemptMessage(
            task_instance_id=row.id,
            attempt_id=row.attempt_id,
            dag_id=row.dag_id,
            run_id=row.run_id,
            task_id=row.task_id,
            map_index=row.map_index,
            try_number=row.try_number,
            pool=row.pool,
            queue=row.queue,
        )
        for row in sorted(rows, key=lambda row: place[row.id])
    ]


@dataclass(frozen=True)
class Unclaimed:
    """A queued attempt that no worker has claimed yet."""

    task_instance_id: int
    attempt_id: UUID
    pool: str
    queue: str
    is_late: bool  # queued longer ago than a worker's usual answer


def unclaimed(connection: Connection, patience_s: float) -> list[Unclaimed]:
    """List the queued attempts, the oldest first."""
    rows = connection.execute(_UNCLAIMED, {"patience_s": patience_s})
    return [Unclaimed(row.id, row.attempt_id, row.pool, row.queue, row.is_late) for row in rows]


def count_waiting_for_missing_pools(connection: Connection) -> dict[str, int]:
    """Count the task instances that wait for a slot of a pool that is not there, by the name of the pool."""
    return {row.pool: row.waiting for row in connection.execute(_MISSING_POOLS)}
