"""Pausing a DAG: no run of it is created, started or queued until it is unpaused; what runs goes on."""

from sqlalchemy import Connection, text

from turnout.metadata import audit
from turnout.metadata.listings.dags import require_dag
from turnout.metadata.wakeups import notify_schedulers


def set_paused(connection: Connection, dag_id: str, *, paused: bool, actor: str) -> bool:
    """Pause or unpause a DAG; return whether that changed anything.

    Raises:
        NotFoundError: there is no such DAG.
    """
    changed = connection.execute(
        text("UPDATE dag SET is_paused = :paused WHERE dag_id = :dag_id AND is_paused <> :paused"),
        {"paused": paused, "dag_id": dag_id},
    ).rowcount
    if not changed:
        require_dag(connection, dag_id)
        return False
    audit.record(connection, actor, "dag.pause" if paused else "dag.unpause", dag_id=dag_id)
    notify_schedulers(connection)
    return True
