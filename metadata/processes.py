"""The registry of processes: who is alive, by leases.

A row is one *term* of a process. A process renews its lease from a thread of its own; whoever lets it expire has lost
the row, is declared dead by any scheduler, and registers anew under another id when it wakes up. Everything that a
process does in the database carries the id of its term, so that none of a lost term's late writes counts: a worker's
statements name it, and a scheduler's transactions end with `fence`.
"""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Literal

from sqlalchemy import Connection, text

from turnout.metadata.errors import TermOverError
from turnout.metadata.messages import OverdueWorker
from turnout.metadata.texts import storable

ProcessKind = Literal["scheduler", "worker", "dag_processor"]

#: As much of a trouble's message as people read.
_TROUBLE_LENGTH = 500

#: The lock of the row is the one that `declare_dead` skips, so that nobody is declared dead between this statement and
#: the commit, while a renewal goes on beside it. A transaction that has written nothing has nothing to fence.
_FENCE = text("""
    SELECT CASE
        WHEN pg_current_xact_id_if_assigned() IS NULL THEN true
        ELSE EXISTS (
            SELECT FROM process
            WHERE id = :id AND state = 'alive' AND lease_expires_at > clock_timestamp()
            FOR KEY SHARE
        )
    END
""")


@dataclass(frozen=True)
class Registration:
    """What a process says of itself when it registers."""

    kind: ProcessKind
    name: str
    lease_s: float
    queues: Sequence[str] | None = None
    pools: Sequence[str] | None = None  # None: all pools
    slots: int | None = None
    runs_callbacks: bool = False
    hostname: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    version: str = field(default_factory=lambda: version("turnout"))


@dataclass(frozen=True)
class WorkerLoad:
    """What a worker reports with its heartbeat."""

    finished_per_s: float | None
    load: float | None
    memory_mb: int | None
    closed_for: str | None = None  # why it takes nothing new; None: it does


#: That of a process that is no worker.
_NO_LOAD = WorkerLoad(None, None, None)


@dataclass(frozen=True)
class Trouble:
    """Something that a process cannot do at this moment."""

    what: Literal["broker", "refused"]  # it cannot reach the broker, or it leaves something alone
    error: str
    for_s: float
    where: Mapping[str, str] = field(default_factory=dict)  # what is left alone: `dag_id`, `run_id`, …


@dataclass(frozen=True)
class LoopReport:
    """What a scheduler says of its loop."""

    did: str  # what the last loop that had work did: a JSON object of counts
    did_s_ago: float = 0.0
    ended_s_ago: float = 0.0  # the last loop, with or without work
    troubles: Sequence[Trouble] = ()


def register(connection: Connection, registration: Registration) -> int:
    """Begin a term and return its id."""
    return int(
        connection.execute(
            text("""
                INSERT INTO process (kind, name, hostname, pid, version, lease_expires_at, queues, pools, slots,
                                     runs_callbacks)
                VALUES (:kind, :name, :hostname, :pid, :version, clock_timestamp() + make_interval(secs => :lease_s),
                        :queues, :pools, :slots, :runs_callbacks)
                RETURNING id
            """),
            {
                **vars(registration),
                "queues": _list(registration.queues),
                "pools": _list(registration.pools),
            },
        ).scalar_one()
    )


def renew(connection: Connection, process_id: int, lease_s: float, load: WorkerLoad | None = None) -> bool:
    """Renew a lease; false when the term is over (declared dead, or ended): register anew."""
    values: dict[str, Any] = vars(load or _NO_LOAD)
    return bool(
        connection.execute(
            text("""
                UPDATE process
                SET heartbeat_at = clock_timestamp(),
                    lease_expires_at = clock_timestamp() + make_interval(secs => :lease_s),
                    finished_per_s = :finished_per_s, load = :load, memory_mb = :memory_mb, closed_for = :closed_for
                WHERE id = :id AND state = 'alive'
            """),
            {"id": process_id, "lease_s": lease_s, **values},
        ).rowcount
    )


def fence(connection: Connection, process_id: int) -> None:
    """Let a transaction be committed only within a term: the last statement of each one that a scheduler writes in.

    Raises:
        TermOverError: the lease is over, or the process has been declared dead.
    """
    if not connection.scalar(_FENCE, {"id": process_id}):
        raise TermOverError


def end(connection: Connection, process_id: int) -> None:
    """End a term of one's own free will."""
    connection.execute(
        text("UPDATE process SET state = 'stopped', ended_at = clock_timestamp() WHERE id = :id AND state = 'alive'"),
        {"id": process_id},
    )


def report_loop(connection: Connection, process_id: int, report: LoopReport) -> None:
    """Record when a scheduler's last loop ended, what the last one that had work did and when (`at`), and troubles."""
    connection.execute(
        text("""
            UPDATE process
            SET last_loop_at = clock_timestamp() - make_interval(secs => :ended_s_ago),
                last_loop = CAST(:did AS jsonb)
                    || jsonb_build_object('at', clock_timestamp() - make_interval(secs => :did_s_ago)),
                troubles = (
                    SELECT COALESCE(jsonb_agg(
                        t.trouble - 'for_s' || jsonb_build_object('since', clock_timestamp()
                            - make_interval(secs => CAST(t.trouble ->> 'for_s' AS float)))
                    ), '[]')
                    FROM jsonb_array_elements(CAST(:troubles AS jsonb)) t (trouble)
                )
            WHERE id = :id
        """),
        {"id": process_id, **vars(report), "troubles": json.dumps([_spoken(one) for one in report.troubles])},
    )


def _spoken(trouble: Trouble) -> dict[str, Any]:
    lines = trouble.error.strip().splitlines() or ["no message"]
    return {**vars(trouble), "where": dict(trouble.where), "error": storable(lines[0][:_TROUBLE_LENGTH])}


def declare_dead(connection: Connection, kinds: Sequence[ProcessKind]) -> list[tuple[int, ProcessKind, str]]:
    """End the term of every process of some kinds that let its lease expire; return their (id, kind, name)."""
    rows = connection.execute(
        text("""
            UPDATE process SET state = 'dead', ended_at = clock_timestamp()
            WHERE id IN (
                SELECT id FROM process
                WHERE state = 'alive' AND kind = ANY(:kinds) AND lease_expires_at < clock_timestamp()
                ORDER BY id FOR UPDATE SKIP LOCKED
            )
            RETURNING id, kind, name
        """),
        {"kinds": list(kinds)},
    )
    return [(row.id, row.kind, row.name) for row in rows]


def overdue_workers(connection: Connection, within_s: float) -> list[OverdueWorker]:
    """List the workers whose leases will be over within so many seconds, or are, and that nobody has declared dead."""
    rows = connection.execute(
        text("""
            SELECT id AS worker_id, name, hostname FROM process
            WHERE state = 'alive' AND kind = 'worker'
              AND lease_expires_at < clock_timestamp() + make_interval(secs => :within_s)
            ORDER BY id
        """),
        {"within_s": within_s},
    )
    return [OverdueWorker(**row) for row in rows.mappings()]


def forget_old(connection: Connection, keep_s: float) -> int:
    """Delete the rows of terms that ended long ago and that no unfinished task instance names."""
    return connection.execute(
        text("""
            DELETE FROM process p
            WHERE p.state <> 'alive' AND p.ended_at < now() - make_interval(secs => :keep_s)
              AND NOT EXISTS (
                  SELECT 1 FROM task_instance t
                  WHERE t.state IN ('queued', 'running') AND p.id IN (t.scheduler_id, t.worker_id)
              )
        """),
        {"keep_s": keep_s},
    ).rowcount


def _list(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)
