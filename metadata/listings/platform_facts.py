"""Who is there to do the work: live schedulers and workers, as an explanation needs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text


@dataclass(frozen=True)
class TroubleFacts:
    """Something that a live scheduler cannot do, as it said with its last heartbeat."""

    scheduler: str
    what: str  # as `processes.Trouble` has it
    error: str
    since: datetime
    where: Mapping[str, str]


@dataclass(frozen=True)
class SchedulerFacts:
    """A live scheduler."""

    name: str
    quiet_s: float  # since its last loop ended, or since it began
    troubles: Sequence[TroubleFacts] = ()


@dataclass(frozen=True)
class WorkerFacts:
    """A live worker."""

    name: str
    queues: Sequence[str]
    pools: Sequence[str] | None  # None: all
    slots: int
    running: int
    closed_for: str | None = None  # why it takes nothing new

    def serves(self, pool: str, queue: str) -> bool:
        """Tell whether it would take a task of a pool and a queue name."""
        return self.closed_for is None and queue in self.queues and self.takes(pool)

    def takes(self, pool: str) -> bool:
        """Tell whether it serves any queue of a pool."""
        return self.pools is None or pool in self.pools


_SCHEDULERS = text("""
    SELECT name, extract(epoch FROM clock_timestamp() - COALESCE(last_loop_at, started_at)) AS quiet_s, troubles
    FROM process
    WHERE kind = 'scheduler' AND state = 'alive' AND lease_expires_at > clock_timestamp()
    ORDER BY name
""")

_LAST_SCHEDULER = text("""
    SELECT name, COALESCE(ended_at, lease_expires_at) AS gone_at FROM process WHERE kind = 'scheduler'
    ORDER BY COALESCE(ended_at, lease_expires_at) DESC LIMIT 1
""")

_WORKERS = text("""
    SELECT w.name, COALESCE(w.queues, '{}') AS queues, w.pools, COALESCE(w.slots, 0) AS slots,
           COALESCE(r.running, 0) AS running, COALESCE('drained by ' || d.actor, w.closed_for) AS closed_for
    FROM process w LEFT JOIN (
        SELECT worker_id, count(*) AS running FROM task_instance WHERE state = 'running' GROUP BY worker_id
    ) r ON r.worker_id = w.id
    LEFT JOIN drained_worker d ON d.name = w.name
    WHERE w.kind = 'worker' AND w.state = 'alive' AND w.lease_expires_at > clock_timestamp()
    ORDER BY w.name
""")

_POOL = text("SELECT slots, rate_starts, rate_period_s FROM pool WHERE name = :pool")

_LATE = text("""
    SELECT count(*) AS late, min(queued_at) AS since FROM task_instance
    WHERE state = 'queued' AND queued_at < clock_timestamp() - make_interval(secs => :patience_s)
""")


@dataclass(frozen=True)
class PoolFacts:
    """A pool as it was made."""

    slots: int
    rate_starts: int | None
    rate_period_s: float | None


def live_schedulers(connection: Connection) -> list[SchedulerFacts]:
    """List the schedulers that hold their lease."""
    return [
        SchedulerFacts(row.name, float(row.quiet_s), [_trouble(row.name, trouble) for trouble in row.troubles])
        for row in connection.execute(_SCHEDULERS)
    ]


def _trouble(scheduler: str, said: Mapping[str, Any]) -> TroubleFacts:
    since = datetime.fromisoformat(said["since"])
    return TroubleFacts(scheduler, said["what"], said["error"], since, said["where"])


def last_scheduler(connection: Connection) -> tuple[str, datetime] | None:
    """Name the scheduler that was the last to go, and when it did; None when there never was one, or long ago."""
    row = connection.execute(_LAST_SCHEDULER).one_or_none()
    return None if row is None else (row.name, row.gone_at)


def live_worker_facts(connection: Connection) -> list[WorkerFacts]:
    """List the workers that hold their lease."""
    return [WorkerFacts(**row) for row in connection.execute(_WORKERS).mappings()]


def read_pool_facts(connection: Connection, pool: str) -> PoolFacts | None:
    """Read a pool; None when there is none of that name."""
    row = connection.execute(_POOL, {"pool": pool}).mappings().one_or_none()
    return None if row is None else PoolFacts(**row)


def count_late(connection: Connection, patience_s: float) -> tuple[int, datetime | None]:
    """Count the attempts that no worker has claimed for a while, and say since when the oldest is published."""
    row = connection.execute(_LATE, {"patience_s": patience_s}).one()
    return row.late, row.since
