"""XCom values: small JSON that a task hands to others of its run."""

from typing import Any

from sqlalchemy import Connection, text


def pull(connection: Connection, dag_run_id: int, task_id: str, map_index: int, key: str) -> Any:
    """Return one value of a run.

    Raises:
        LookupError: the task has pushed no such key.
    """
    row = connection.execute(
        text("""
            SELECT value FROM xcom
            WHERE dag_run_id = :run AND task_id = :task AND map_index = :map_index AND key = :key
        """),
        {"run": dag_run_id, "task": task_id, "map_index": map_index, "key": key},
    ).one_or_none()
    if row is None:
        raise LookupError(f"Task {task_id} has pushed no XCom {key!r} in this run.")
    return row.value
