"""Runs that start: which DAGs have some that may, and the step from `queued` to `running`.

Of a DAG's runs those of higher priority come first, then those that waited longest. Those of a backfill wait in a line
of their own, so that neither line can hide the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from turnout.metadata.orphans import remove_orphans


@dataclass(frozen=True)
class WaitingDag:
    """A DAG with runs that may start now; its row is locked.

    Attributes:
        dag_id: the DAG.
        max_active_runs: how many of its runs may be running.
        running: how many are, those of a backfill left out.
        running_backfills: how many of a backfill are.
        waiting: the priorities of those that wait, in the order in which they start, as many as there is room for.
        waiting_backfills: the same of those of a backfill.
        waits_since: from when on the first of them could have started.
        backfill_turn: how much of a start is due to its backfills.
    """

    dag_id: str
    max_active_runs: int
    running: int
    running_backfills: int
    waiting: Sequence[int]
    waiting_backfills: Sequence[int]
    waits_since: datetime
    backfill_turn: float


@dataclass(frozen=True)
class Starts:
    """How many runs of a DAG start, and how much of a start is due to its backfills after that."""

    dag_id: str
    runs: int
    backfills: int
    backfill_turn: float


_LINE = "r.dag_id = d.dag_id AND r.state = 'queued' AND r.run_type <> 'backfill' AND r.run_after <= now()"
_BACKFILL_LINE = "r.dag_id = d.dag_id AND r.state = 'queued' AND r.run_type = 'backfill' AND r.run_after <= now()"
_ORDER = "ORDER BY r.priority DESC, r.run_after, r.id"

#: Hops from one DAG with queued runs to the next: a DAG with thousands of them costs no more than a DAG with one.
#: To ask for the first of a line, not whether there is any, keeps PostgreSQL from looking for it in the whole table.
_LOCK_DAGS_TO_START = text(f"""
    WITH RECURSIVE hop (dag_id) AS (
        SELECT LEAST(
            (SELECT min(dag_id) FROM dag_run WHERE state = 'queued' AND run_type <> 'backfill'),
            (SELECT min(dag_id) FROM dag_run WHERE state = 'queued' AND run_type = 'backfill')
        )
        UNION ALL
        SELECT LEAST(
            (SELECT min(dag_id) FROM dag_run WHERE state = 'queued' AND run_type <> 'backfill' AND dag_id > h.dag_id),
            (SELECT min(dag_id) FROM dag_run WHERE state = 'queued' AND run_type = 'backfill' AND dag_id > h.dag_id)
        )
        FROM hop h WHERE h.dag_id IS NOT NULL
    )
    SELECT d.dag_id FROM hop JOIN dag d ON d.dag_id = hop.dag_id
    WHERE d.is_active AND NOT d.is_paused
      AND ((SELECT r.id FROM dag_run r WHERE {_LINE} {_ORDER} LIMIT 1) IS NOT NULL
           OR (SELECT r.id FROM dag_run r WHERE {_BACKFILL_LINE} {_ORDER} LIMIT 1) IS NOT NULL)
      AND d.max_active_runs > (SELECT count(*) FROM dag_run r WHERE r.dag_id = d.dag_id AND r.state = 'running')
    ORDER BY d.dag_id
    FOR NO KEY UPDATE OF d SKIP LOCKED
""")  # noqa: S608  only constants of this module

#: A statement of its own, since running runs must be counted after the rows of their DAGs are locked.
_READ_LINES = text(f"""
    SELECT d.dag_id, d.max_active_runs, n.running, n.running_backfills, d.backfill_turn,
           ARRAY(SELECT r.priority FROM dag_run r WHERE {_LINE} {_ORDER} LIMIT n.room) AS waiting,
           ARRAY(SELECT r.priority FROM dag_run r WHERE {_BACKFILL_LINE} {_ORDER} LIMIT n.room) AS waiting_backfills,
           LEAST((SELECT r.run_after FROM dag_run r WHERE {_LINE} {_ORDER} LIMIT 1),
                 (SELECT r.run_after FROM dag_run r WHERE {_BACKFILL_LINE} {_ORDER} LIMIT 1)) AS waits_since
    FROM dag d CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE r.run_type <> 'backfill') AS running,
               count(*) FILTER (WHERE r.run_type = 'backfill') AS running_backfills,
               LEAST(:limit, GREATEST(0, d.max_active_runs - count(*))) AS room
        FROM dag_run r WHERE r.dag_id = d.dag_id AND r.state = 'running'
    ) n
    WHERE d.dag_id = ANY(:dag_ids)
""")  # noqa: S608  only constants of this module

#: A run that was cleared keeps its version; one that a person holds is left alone, since the person may wait for others
#: that are started here.
_START = text(f"""
    WITH chosen AS (
        SELECT q.id
        FROM unnest(CAST(:dag_ids AS text[]), CAST(:runs AS int[]), CAST(:backfills AS int[]))
            AS d (dag_id, runs, backfills)
        CROSS JOIN LATERAL (
            (SELECT r.id FROM dag_run r WHERE {_LINE} {_ORDER} LIMIT d.runs)
            UNION ALL
            (SELECT r.id FROM dag_run r WHERE {_BACKFILL_LINE} {_ORDER} LIMIT d.backfills)
        ) q
    ), versioned AS (
        SELECT o.id, CASE WHEN EXISTS (SELECT 1 FROM task_instance t WHERE t.dag_run_id = o.id)
                          THEN o.dag_version_id ELSE d.current_version_id END AS version_id
        FROM dag_run o JOIN dag d ON d.dag_id = o.dag_id
        WHERE o.id = ANY(ARRAY(SELECT id FROM chosen)) AND o.state = 'queued'
        FOR NO KEY UPDATE OF o SKIP LOCKED
    )
    UPDATE dag_run r
    SET state = 'running', started_at = now(), dag_version_id = n.version_id,
        timeout_at = now() + make_interval(secs => CAST(v.content ->> 'dagrun_timeout_s' AS float8))
    FROM versioned n JOIN dag_version v ON v.id = n.version_id
    WHERE r.id = n.id AND r.state = 'queued'
    RETURNING r.id
""")  # noqa: S608  only constants of this module

_KEEP_TURNS = text("""
    UPDATE dag d SET backfill_turn = n.turn
    FROM unnest(CAST(:dag_ids AS text[]), CAST(:turns AS real[])) n (dag_id, turn)
    WHERE d.dag_id = n.dag_id AND d.backfill_turn <> n.turn
""")

_CREATE_TASK_INSTANCES = text("""
    INSERT INTO task_instance (dag_run_id, dag_id, task_id, max_tries, pool, pool_slots, extra_pools, queue,
                               run_priority, priority_weight, run_date, max_active_tis_per_dag,
                               max_active_tis_per_dagrun, callbacks)
    SELECT r.id, r.dag_id, t.key, (t.value ->> 'retries')::int, t.value ->> 'pool', (t.value ->> 'pool_slots')::int,
           NULLIF(t.value -> 'extra_pools', 'null'), t.value ->> 'queue', r.priority,
           (t.value ->> 'priority_weight')::int,
           CASE WHEN r.run_type = 'backfill' THEN r.started_at ELSE COALESCE(r.logical_date, r.run_after) END,
           (t.value ->> 'max_active_tis_per_dag')::int, (t.value ->> 'max_active_tis_per_dagrun')::int,
           (SELECT array_agg(c.event) FROM jsonb_array_elements_text(t.value -> 'callbacks') c (event))
    FROM dag_run r JOIN dag_version v ON v.id = r.dag_version_id, jsonb_each(v.content -> 'tasks') t
    WHERE r.id = ANY(:run_ids)
    ON CONFLICT DO NOTHING
""")


def lock_dags_to_start(connection: Connection, limit: int) -> list[WaitingDag]:
    """Lock the DAGs that have runs which may start now, except those that another scheduler has locked.

    Args:
        connection: the transaction.
        limit: most waiting runs to look at of each.
    """
    dag_ids = list(connection.scalars(_LOCK_DAGS_TO_START))
    return read_lines(connection, dag_ids, limit) if dag_ids else []


def read_lines(connection: Connection, dag_ids: Sequence[str], limit: int) -> list[WaitingDag]:
    """Read who waits to start of some DAGs; those of which nobody may are left out."""
    rows = connection.execute(_READ_LINES, {"dag_ids": dag_ids, "limit": limit}).mappings()
    return [WaitingDag(**row) for row in rows if row["waiting"] or row["waiting_backfills"]]


def start_queued(connection: Connection, starts: Sequence[Starts]) -> list[int]:
    """Start the first of the queued runs of DAGs whose rows are locked, and create their task instances.

    Returns:
        The ids of the runs started.
    """
    if not starts:
        return []
    dag_ids = [start.dag_id for start in starts]
    counts = {"runs": [start.runs for start in starts], "backfills": [start.backfills for start in starts]}
    run_ids = list(connection.scalars(_START, {"dag_ids": dag_ids, **counts}))
    if any(start.backfills for start in starts) or any(start.backfill_turn for start in starts):
        connection.execute(_KEEP_TURNS, {"dag_ids": dag_ids, "turns": [start.backfill_turn for start in starts]})
    remove_orphans(connection, run_ids)  # of runs that were cleared, and start again on another version
    connection.execute(_CREATE_TASK_INSTANCES, {"run_ids": run_ids})
    connection.execute(
        text("INSERT INTO wakeup (dag_run_id) SELECT unnest(CAST(:run_ids AS bigint[]))"), {"run_ids": run_ids}
    )
    return run_ids
