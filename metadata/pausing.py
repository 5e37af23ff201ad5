"""Pausing a DAG: no run of it is created, started or queued until it is unpaused; what runs goes on."""

from collections.abc import Mapping

from sqlalchemy import Connection, text

from turnout.metadata import audit
from turnout.metadata.listings.dags import require_dag
from turnout.metadata.runs import plan_next
from turnout.metadata.wakeups import notify_schedulers


def set_paused(connection: Connection, dag_id: str, *, paused: bool, actor: str) -> bool:
    """Pause or unpause a DAG; return whether that changed anything.

    Raises:
        NotFoundError: there is no such DAG.
    """
    changed = connection.execute(
        text("""
            UPDATE dag
            SET is_paused = :paused, scheduled_since = CASE WHEN :paused THEN scheduled_since ELSE now() END
            WHERE dag_id = :dag_id AND is_paused <> :paused
        """),
        {"paused": paused, "dag_id": dag_id},
    ).rowcount
    if not changed:
        require_dag(connection, dag_id)
        return False
    if not paused:
        plan_next(connection, [dag_id])
    audit.record(connection, actor, "dag.pause" if paused else "dag.unpause", dag_id=dag_id)
    notify_schedulers(connection)
    return True


#: Held while the runs are counted, so that of two schedulers that finish runs at the same time the second counts all.
_LOCK_DAGS = text("""
    SELECT dag_id FROM dag WHERE dag_id = ANY(:dag_ids) AND NOT is_paused ORDER BY dag_id FOR NO KEY UPDATE
""")

_PAUSE_FAILING = text("""
    UPDATE dag d SET is_paused = true
    FROM unnest(CAST(:dag_ids AS text[]), CAST(:limits AS int[])) AS n (dag_id, most)
    WHERE d.dag_id = n.dag_id AND NOT d.is_paused AND n.most = (
        SELECT count(*) FROM (
            SELECT r.state FROM dag_run r
            WHERE r.dag_id = d.dag_id AND r.state IN ('success', 'failed') AND r.logical_date IS NOT NULL
            ORDER BY r.logical_date DESC LIMIT n.most
        ) l WHERE l.state = 'failed'
    )
    RETURNING d.dag_id
""")


def pause_failing(connection: Connection, limits: Mapping[str, int]) -> list[str]:
    """Pause those of some DAGs whose last runs have all failed; return their ids.

    Args:
        connection: the transaction that has ended a run of each of them.
        limits: how many runs in a row must have failed, the last ones by logical date of those that are over.
    """
    if not limits or not connection.execute(_LOCK_DAGS, {"dag_ids": sorted(limits)}).all():
        return []
    values = {"dag_ids": list(limits), "limits": list(limits.values())}
    paused = sorted(connection.scalars(_PAUSE_FAILING, values))
    for dag_id in paused:
        failed = limits[dag_id]
        audit.record(connection, "scheduler", "dag.pause", dag_id=dag_id, max_consecutive_failed_dag_runs=failed)
    return paused
