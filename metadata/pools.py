"""Pools: named numbers of slots, set by people and filled by the critical section."""

from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, text

from turnout.metadata import audit
from turnout.metadata.errors import ConflictError, RequestError
from turnout.metadata.listings.missing import no_such
from turnout.metadata.listings.page import Page, first
from turnout.metadata.states import UNFINISHED
from turnout.metadata.tables import sql_list
from turnout.metadata.wakeups import notify_schedulers
from turnout.tasks.ids import check_key

DEFAULT_POOL = "default_pool"


class Rate(NamedTuple):
    """At most so many starts in any period of so many seconds."""

    starts: int
    period_s: float


#: Stands for the rate that a pool has.
KEEP_RATE = Rate(0, 0)


@dataclass(frozen=True)
class PoolRow:
    """A pool, and how its slots are used."""

    name: str
    slots: int
    description: str | None
    include_deferred: bool
    rate_starts: int | None
    rate_period_s: float | None
    occupied_slots: int
    running_slots: int
    queued_slots: int
    scheduled_slots: int
    deferred_slots: int
    open_slots: int


_LIST = text("""
    WITH taken AS (
        SELECT pool, state, pool_slots FROM task_instance
        WHERE state IN ('queued', 'running', 'scheduled', 'deferred')
        UNION ALL
        SELECT e.key, t.state, CAST(e.value AS int) FROM task_instance t
        CROSS JOIN LATERAL jsonb_each_text(t.extra_pools) e
        WHERE t.state IN ('queued', 'running', 'scheduled', 'deferred')
    ), used AS (
        SELECT pool, COALESCE(sum(pool_slots) FILTER (WHERE state = 'running'), 0) AS running,
               COALESCE(sum(pool_slots) FILTER (WHERE state = 'queued'), 0) AS queued,
               COALESCE(sum(pool_slots) FILTER (WHERE state = 'scheduled'), 0) AS scheduled,
               COALESCE(sum(pool_slots) FILTER (WHERE state = 'deferred'), 0) AS deferred
        FROM taken GROUP BY pool
    ), pools AS (
        SELECT p.name, p.slots, p.description, p.include_deferred, p.rate_starts, p.rate_period_s,
               COALESCE(u.running, 0) AS running_slots,
               COALESCE(u.queued, 0) AS queued_slots, COALESCE(u.scheduled, 0) AS scheduled_slots,
               COALESCE(u.deferred, 0) AS deferred_slots,
               COALESCE(u.running + u.queued + CASE WHEN p.include_deferred THEN u.deferred ELSE 0 END, 0)
                   AS occupied_slots
        FROM pool p LEFT JOIN used u ON u.pool = p.name
    )
    SELECT *, greatest(slots - occupied_slots, 0) AS open_slots FROM pools ORDER BY name LIMIT :limit
""")

_SET = text("""
    INSERT INTO pool AS p (name, slots, description, include_deferred, rate_starts, rate_period_s)
    VALUES (:name, :slots, :description, COALESCE(:include_deferred, false), :rate_starts, :rate_period_s)
    ON CONFLICT (name) DO UPDATE
    SET slots = EXCLUDED.slots, description = COALESCE(EXCLUDED.description, p.description),
        include_deferred = COALESCE(:include_deferred, p.include_deferred),
        rate_starts = CASE WHEN :keeps_rate THEN p.rate_starts ELSE EXCLUDED.rate_starts END,
        rate_period_s = CASE WHEN :keeps_rate THEN p.rate_period_s ELSE EXCLUDED.rate_period_s END
    RETURNING xmax = 0 AS is_new, p.include_deferred, p.rate_starts, p.rate_period_s
""")

_WAITING_FOR = text(
    f"""
    SELECT count(*) FROM task_instance
    WHERE (pool = :name OR extra_pools ? :name) AND state IN ({sql_list(UNFINISHED)})
    """  # noqa: S608  constants
)

_DAGS_THAT_NAME = text("""
    SELECT d.dag_id FROM dag d JOIN dag_version v ON v.id = d.current_version_id
    WHERE d.is_active AND EXISTS (
        SELECT 1 FROM jsonb_each(v.content -> 'tasks') t
        WHERE t.value ->> 'pool' = :name OR t.value -> 'extra_pools' ? :name
    )
    ORDER BY d.dag_id
""")


def list_pools(connection: Connection, limit: int) -> Page[PoolRow]:
    """List the pools by name."""
    rows = connection.execute(_LIST, {"limit": limit + 1})
    return first((PoolRow(**row) for row in rows.mappings()), limit)


def pool_names(connection: Connection) -> list[str]:
    """List the names of all pools: what a worker that serves every pool consumes."""
    return list(connection.scalars(text("SELECT name FROM pool ORDER BY name")))


def set_pool(
    connection: Connection,
    name: str,
    slots: int,
    *,
    description: str | None,
    include_deferred: bool | None,
    rate: Rate | None = KEEP_RATE,
    actor: str,
) -> bool:
    """Make a pool, or change it; return whether it is new.

    Fewer slots than are in use end nothing: no more is queued until enough of it has finished.

    Args:
        connection: the transaction.
        name: its name.
        slots: how many it has.
        description: what it is for; None leaves it as it is.
        include_deferred: whether deferred task instances occupy slots; None leaves it as it is.
        rate: how many attempts may start in it in a period; None for any number; `KEEP_RATE` leaves it as it is.
        actor: who does it.

    Raises:
        RequestError: a pool cannot have such a name or so many slots.
    """
    if slots < 0:
        raise RequestError(f"Pool {name} cannot have {slots} slots: give 0 or more.")
    if "." in name:  # the Celery queue is <pool>.<queue>, which must be that of one pool only
        raise RequestError(f"Pool {name} cannot have a dot in its name: use - or _.")
    wanted = {"name": check_key(name, "pool"), "slots": slots, "description": description}
    wanted |= {"include_deferred": include_deferred, "keeps_rate": rate is KEEP_RATE}
    wanted |= {"rate_starts": (rate and rate.starts) or None, "rate_period_s": (rate and rate.period_s) or None}
    row = connection.execute(_SET, wanted).one()
    rate_now = {"rate_starts": row.rate_starts, "rate_period_s": row.rate_period_s}
    audit.record(
        connection, actor, "pool.set", pool=name, slots=slots, include_deferred=row.include_deferred, **rate_now
    )
    notify_schedulers(connection)
    return bool(row.is_new)


def delete_pool(connection: Connection, name: str, *, actor: str) -> None:
    """Delete a pool that nothing needs.

    Raises:
        NotFoundError: there is no such pool.
        ConflictError: task instances or DAGs need it.
    """
    if name == DEFAULT_POOL:
        raise ConflictError(f"Pool {name} is for the tasks that name none, and cannot be deleted.")
    if not connection.execute(text("DELETE FROM pool WHERE name = :name"), {"name": name}).rowcount:
        known = connection.scalars(text("SELECT name FROM pool"))
        raise no_such("pool", name, known, "See `turnout pools list`.")
    _refuse_if_needed(connection, name)
    audit.record(connection, actor, "pool.delete", pool=name)


def _refuse_if_needed(connection: Connection, name: str) -> None:
    waiting = connection.scalar(_WAITING_FOR, {"name": name})
    if waiting:
        raise ConflictError(f"Pool {name} is needed by {waiting} unfinished task instances: let them finish first.")
    dag_ids = list(connection.scalars(_DAGS_THAT_NAME, {"name": name}))
    if dag_ids:
        raise ConflictError(f"Pool {name} is named by tasks of {', '.join(dag_ids[:3])}: change these DAGs first.")
