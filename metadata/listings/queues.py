"""Celery queues as people read them: what waits, what runs, and who could run it."""

from dataclasses import dataclass

from sqlalchemy import Connection, text

from turnout.metadata.messages import celery_queue
from turnout.metadata.pools import DEFAULT_POOL
from turnout.tasks.callbacks import CALLBACK_QUEUE


@dataclass(frozen=True)
class QueueRow:
    """A Celery queue: one for every pool and queue name."""

    celery_queue: str
    pool: str | None  # None: that of callbacks, which know no pools
    queue: str
    waiting: int  # scheduled in the database, not yet published
    queued: int  # published, not yet claimed
    running: int
    live_workers: int
    live_slots: int
    oldest_wait: float | None  # seconds since the first of those waiting or queued was scheduled
    is_paused: bool
    depth: int | None = None  # messages at the broker; None: the broker was not asked


#: All queues that hold work or that a live worker serves, unless it takes nothing new. One that names no pools serves
#: all of them. Paused queues are there in any case.
_QUEUES = text("""
    WITH work AS (
        SELECT pool, queue, count(*) FILTER (WHERE state = 'scheduled') AS waiting,
               count(*) FILTER (WHERE state = 'queued') AS queued,
               count(*) FILTER (WHERE state = 'running') AS running,
               min(scheduled_at) FILTER (WHERE state <> 'running') AS since
        FROM task_instance WHERE state IN ('queued', 'running') OR state = 'scheduled'
        GROUP BY pool, queue
    ), served AS (
        SELECT n.name AS pool, q.queue, count(*) AS live_workers, COALESCE(sum(w.slots), 0) AS live_slots
        FROM process w
        CROSS JOIN LATERAL unnest(w.queues) AS q (queue)
        JOIN pool n ON w.pools IS NULL OR n.name = ANY(w.pools)
        WHERE w.kind = 'worker' AND w.state = 'alive' AND w.lease_expires_at > clock_timestamp()
          AND w.closed_for IS NULL AND NOT EXISTS (SELECT FROM drained_worker d WHERE d.name = w.name)
          AND q.queue <> :callbacks
        GROUP BY n.name, q.queue
    ), idle AS (
        SELECT :default_pool AS pool, queue FROM paused_queue WHERE queue <> :callbacks
    )
    SELECT pool, queue, COALESCE(waiting, 0) AS waiting, COALESCE(queued, 0) AS queued, COALESCE(running, 0) AS running,
           COALESCE(live_workers, 0) AS live_workers, COALESCE(live_slots, 0) AS live_slots,
           CAST(extract(epoch FROM clock_timestamp() - since) AS float8) AS oldest_wait,
           queue IN (SELECT queue FROM paused_queue) AS is_paused
    FROM work FULL JOIN served USING (pool, queue) FULL JOIN idle USING (pool, queue)
    ORDER BY pool, queue
""")


#: Callbacks take no slots, and each worker that runs them at all serves them.
_CALLBACKS = text("""
    WITH work AS (
        SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting,
               count(*) FILTER (WHERE state = 'running') AS running,
               min(created_at) FILTER (WHERE state = 'waiting') AS since
        FROM callback WHERE state IN ('waiting', 'running')
    ), served AS (
        SELECT count(*) AS live_workers FROM process w
        WHERE w.kind = 'worker' AND w.state = 'alive' AND w.lease_expires_at > clock_timestamp() AND w.runs_callbacks
          AND w.closed_for IS NULL AND NOT EXISTS (SELECT FROM drained_worker d WHERE d.name = w.name)
    )
    SELECT NULL AS pool, :callbacks AS queue, waiting, 0 AS queued, running, live_workers, 0 AS live_slots,
           CAST(extract(epoch FROM clock_timestamp() - since) AS float8) AS oldest_wait,
           EXISTS (SELECT FROM paused_queue WHERE queue = :callbacks) AS is_paused
    FROM work, served
""")


def list_queues(connection: Connection) -> list[QueueRow]:
    """List the Celery queues that hold work, that a live worker serves, or that are paused; and that of callbacks."""
    said = {"default_pool": DEFAULT_POOL, "callbacks": CALLBACK_QUEUE}
    rows = connection.execute(_QUEUES, said).mappings()
    queues = [QueueRow(celery_queue=celery_queue(row["pool"], row["queue"]), **row) for row in rows]
    called = QueueRow(celery_queue=CALLBACK_QUEUE, **connection.execute(_CALLBACKS, said).mappings().one())
    return [*queues, called] if called.waiting or called.running or called.is_paused else queues
