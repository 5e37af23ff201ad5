"""What is stuck on its way to a worker: it lost its message, is larger than its pool, or has no such pool."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text


@dataclass(frozen=True)
class Unclaimed:
    """A queued attempt that no worker has claimed yet."""

    task_instance_id: int
    attempt_id: UUID
    pool: str
    queue: str
    is_late: bool  # queued longer ago than a worker's usual answer


#: Each message that was taken for lost doubles the patience with the next, up to eightfold: where a claim takes longer
#: than the patience, no attempt would ever be claimed before its message is given up.
_UNCLAIMED = text("""
    SELECT t.id, t.attempt_id, t.pool, t.queue, CASE
        WHEN t.queued_at < now() - make_interval(secs => :patience_s)
        THEN t.queued_at < now() - make_interval(secs => :patience_s * power(2, LEAST(3, (
            SELECT count(*) FROM task_attempt a WHERE a.task_instance_id = t.id AND a.cause = 'message_lost'
        ))))
        ELSE false
    END AS is_late
    FROM task_instance t
    WHERE t.state = 'queued'
    ORDER BY t.queued_at, t.id
""")

#: Materialized: a plan from the time when the table was empty looked at it once for each of its rows, 46 s for 4,500.
_REFUSE = text("""
    WITH oversized AS MATERIALIZED (
        SELECT t.id, p.name, t.pool_slots AS needed, p.slots
        FROM task_instance t JOIN pool p ON p.name = t.pool
        WHERE t.state = 'scheduled' AND p.slots > 0 AND t.pool_slots > p.slots
        UNION ALL
        SELECT t.id, p.name, CAST(e.value AS int), p.slots
        FROM task_instance t CROSS JOIN LATERAL jsonb_each_text(t.extra_pools) e JOIN pool p ON p.name = e.key
        WHERE t.state = 'scheduled' AND t.extra_pools IS NOT NULL AND p.slots > 0 AND CAST(e.value AS int) > p.slots
    ), refused AS (
        UPDATE task_instance t
        SET state = 'failed', cause = 'pool_too_small', ended_at = clock_timestamp(), error = format(
            'It needs %s slots of pool %s, which has %s in all: `turnout pools set %s %s`, then clear it.',
            o.needed, o.name, o.slots, o.name, o.needed
        )
        FROM oversized o WHERE t.id = o.id AND t.state = 'scheduled'
        RETURNING t.id, t.dag_run_id, t.task_id
    ), woken AS (
        INSERT INTO wakeup (dag_run_id, task_id) SELECT dag_run_id, task_id FROM refused
    )
    SELECT id FROM refused ORDER BY id
""")

_MISSING_POOLS = text("""
    SELECT w.pool, count(*) AS waiting FROM (
        SELECT t.pool FROM task_instance t WHERE t.state = 'scheduled'
        UNION ALL
        SELECT e FROM task_instance t CROSS JOIN LATERAL jsonb_object_keys(t.extra_pools) e
        WHERE t.state = 'scheduled' AND t.extra_pools IS NOT NULL
    ) w
    WHERE NOT EXISTS (SELECT 1 FROM pool p WHERE p.name = w.pool)
    GROUP BY w.pool ORDER BY w.pool
""")


def unclaimed(connection: Connection, patience_s: float) -> list[Unclaimed]:
    """List the queued attempts, the oldest first."""
    rows = connection.execute(_UNCLAIMED, {"patience_s": patience_s})
    return [Unclaimed(row.id, row.attempt_id, row.pool, row.queue, row.is_late) for row in rows]


def refuse_oversized(connection: Connection) -> list[int]:
    """Fail the waiting task instances that need more slots than one of their pools has, since they would never start.

    A pool without any slot is one that was closed for a while: for it they wait.

    Returns:
        Their ids.
    """
    return list(connection.scalars(_REFUSE))


def count_waiting_for_missing_pools(connection: Connection) -> dict[str, int]:
    """Count the task instances that wait for a slot of a pool that is not there, by the name of the pool."""
    return {row.pool: row.waiting for row in connection.execute(_MISSING_POOLS)}
