"""Who holds a limit: the active task instances that count towards it, the longest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from turnout.metadata.listings.task_facts import task_name
from turnout.metadata.states import ACTIVE
from turnout.metadata.tables import sql_list

_SHOWN = 3


@dataclass(frozen=True)
class Holders:
    """The first few of them, how many there are, and the slots that they use."""

    names: Sequence[str]
    count: int
    slots: int


_HOLDERS = """
    SELECT h.dag_id, r.run_id, h.task_id, h.map_index, h.holders, h.used FROM (
        SELECT t.dag_run_id, t.dag_id, t.task_id, t.map_index, t.queued_at, t.id,
               count(*) OVER () AS holders, sum({slots}) OVER () AS used
        FROM task_instance t WHERE {condition}
        ORDER BY t.queued_at, t.id LIMIT :shown
    ) h JOIN dag_run r ON r.id = h.dag_run_id
    ORDER BY h.queued_at, h.id
"""
_IS_ACTIVE = f"t.state IN ({sql_list(ACTIVE)})"

_OF_POOL = text(
    _HOLDERS.format(
        slots="CASE WHEN t.pool = :pool THEN t.pool_slots ELSE CAST(t.extra_pools ->> :pool AS int) END",
        condition=f"""
            ({_IS_ACTIVE} OR (t.state = 'deferred' AND (SELECT p.include_deferred FROM pool p WHERE p.name = :pool)))
            AND (t.pool = :pool OR jsonb_exists(t.extra_pools, :pool))
        """,  # noqa: S608  only constants of the law
    )
)
_OF_RUN = text(_HOLDERS.format(slots="1", condition=f"{_IS_ACTIVE} AND t.dag_run_id = :run"))
_OF_TASK = text(_HOLDERS.format(slots="1", condition=f"{_IS_ACTIVE} AND t.dag_id = :dag_id AND t.task_id = :task_id"))
_OF_TASK_IN_RUN = text(
    _HOLDERS.format(slots="1", condition=f"{_IS_ACTIVE} AND t.dag_run_id = :run AND t.task_id = :task_id")
)
_OF_ALL = text(_HOLDERS.format(slots="1", condition=_IS_ACTIVE))


def holders_of_pool(connection: Connection, pool: str) -> Holders:
    """Find what uses slots of a pool."""
    return _found(connection, _OF_POOL, pool=pool)


def holders_of_run(connection: Connection, dag_run_id: int) -> Holders:
    """Find what is active of a run."""
    return _found(connection, _OF_RUN, run=dag_run_id)


def holders_of_task(connection: Connection, dag_id: str, task_id: str) -> Holders:
    """Find the active instances of a task, in all its runs."""
    return _found(connection, _OF_TASK, dag_id=dag_id, task_id=task_id)


def holders_of_task_in_run(connection: Connection, dag_run_id: int, task_id: str) -> Holders:
    """Find the active instances of a task in one run."""
    return _found(connection, _OF_TASK_IN_RUN, run=dag_run_id, task_id=task_id)


def holders_of_all(connection: Connection) -> Holders:
    """Find what is active at all."""
    return _found(connection, _OF_ALL)


def _found(connection: Connection, statement: Any, **values: Any) -> Holders:
    rows = connection.execute(statement, {**values, "shown": _SHOWN}).all()
    names = [task_name(row.dag_id, row.run_id, row.task_id, row.map_index) for row in rows]
    return Holders(names, rows[0].holders if rows else 0, int(rows[0].used) if rows else 0)
