"""Workers and schedulers as people read them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from turnout.metadata.listings.page import Page, first


@dataclass(frozen=True)
class ProcessRow:
    """One term of a process."""

    id: int
    name: str
    state: str  # alive, stopped, dead
    hostname: str
    pid: int
    version: str
    start_date: datetime
    latest_heartbeat: datetime
    end_date: datetime | None


@dataclass(frozen=True)
class WorkerRow(ProcessRow):
    """A worker: what it serves, and its load."""

    queues: list[str]
    pools: list[str] | None  # None: all
    slots: int | None
    runs_callbacks: bool
    running: int
    finished_per_s: float | None
    load: float | None
    memory_mb: int | None
    closed_for: str | None  # why it takes nothing new: drained by whom, or too much load


@dataclass(frozen=True)
class SchedulerRow(ProcessRow):
    """A scheduler, and what its loop did."""

    lease_expires_when: datetime
    last_loop_when: datetime | None  # when the last loop ended
    last_loop: dict[str, Any] | None  # what the last one that had work did, and when (`at`)
    troubles: list[dict[str, Any]]  # what it cannot do, with `what`, `error`, `since` and `where`


#: Whoever let its lease expire is dead, also in the moment before a scheduler says so.
_PROCESS = """
    p.id, p.name, p.hostname, p.pid, p.version,
    CASE WHEN p.state = 'alive' AND p.lease_expires_at <= clock_timestamp() THEN 'dead' ELSE p.state END AS state,
    p.started_at AS start_date, p.heartbeat_at AS latest_heartbeat, p.ended_at AS end_date
"""
_SHOWN = "(:is_all OR (p.state = 'alive' AND p.lease_expires_at > clock_timestamp()))"
_ORDER = "ORDER BY p.state <> 'alive', p.name, p.id DESC LIMIT :limit"

_WORKERS = text(f"""
    SELECT {_PROCESS}, COALESCE(p.queues, '{{}}') AS queues, p.pools, p.slots, p.runs_callbacks,
           p.finished_per_s, p.load, p.memory_mb,
           COALESCE('drained by ' || d.actor, p.closed_for) AS closed_for,
           (SELECT count(*) FROM task_instance t WHERE t.state = 'running' AND t.worker_id = p.id) AS running
    FROM process p LEFT JOIN drained_worker d ON d.name = p.name WHERE p.kind = 'worker' AND {_SHOWN} {_ORDER}
""")  # noqa: S608  only constants of this module

_SCHEDULERS = text(f"""
    SELECT {_PROCESS}, p.lease_expires_at AS lease_expires_when, p.last_loop_at AS last_loop_when, p.last_loop,
           p.troubles
    FROM process p WHERE p.kind = 'scheduler' AND {_SHOWN} {_ORDER}
""")  # noqa: S608  only constants of this module

_ALIVE = text("""
    SELECT EXISTS (SELECT FROM process WHERE name = :name AND state = 'alive' AND lease_expires_at > clock_timestamp())
""")


def is_alive(connection: Connection, name: str) -> bool:
    """Tell whether any process of this name holds its lease."""
    return bool(connection.scalar(_ALIVE, {"name": name}))


def list_workers(connection: Connection, limit: int, *, is_all: bool = True) -> Page[WorkerRow]:
    """List the workers, those alive first, then (`is_all`) those that ended within the last day."""
    rows = connection.execute(_WORKERS, {"limit": limit + 1, "is_all": is_all})
    return first((WorkerRow(**row) for row in rows.mappings()), limit)


def list_schedulers(connection: Connection, limit: int, *, is_all: bool = True) -> Page[SchedulerRow]:
    """List the schedulers, those alive first, then (`is_all`) those that ended within the last day."""
    rows = connection.execute(_SCHEDULERS, {"limit": limit + 1, "is_all": is_all})
    return first((SchedulerRow(**row) for row in rows.mappings()), limit)
