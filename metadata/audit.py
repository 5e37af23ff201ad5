"""The audit log: who changed what, by hand."""

import json
from typing import Any

from sqlalchemy import Connection, text


def record(
    connection: Connection,
    actor: str,
    action: str,
    *,
    dag_id: str | None = None,
    run_id: str | None = None,
    task_id: str | None = None,
    **detail: Any,
) -> None:
    """Record an action of a person, in the transaction that carries it out.

    Args:
        connection: the transaction.
        actor: who did it, for example `cli:ada`.
        action: what was done, for example `dag.pause`.
        dag_id: the DAG that it was done to.
        run_id: the run that it was done to.
        task_id: the task that it was done to.
        detail: more about it; values of JSON.
    """
    connection.execute(
        text("""
            INSERT INTO audit_log (actor, action, dag_id, run_id, task_id, detail)
            VALUES (:actor, :action, :dag_id, :run_id, :task_id, CAST(:detail AS jsonb))
        """),
        {
            "actor": actor,
            "action": action,
            "dag_id": dag_id,
            "run_id": run_id,
            "task_id": task_id,
            "detail": json.dumps(detail),
        },
    )
