"""What a task instance handed to others of its run, as people read it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from turnout.metadata.listings.page import Page, first
from turnout.metadata.listings.runs import find_run
from turnout.metadata.listings.task_instances import show_task_instance


@dataclass(frozen=True)
class XComRow:
    """One value."""

    key: str
    value: Any  # as JSON has it
    timestamp: datetime
    map_index: int
    task_id: str
    run_id: str
    dag_id: str


_LIST = text("""
    SELECT key, value, created_at AS timestamp, map_index, task_id
    FROM xcom WHERE dag_run_id = :run AND task_id = :task_id AND map_index = :map_index
    ORDER BY key LIMIT :limit
""")


def list_xcoms(
    connection: Connection, dag_id: str, run_id: str, task_id: str, map_index: int, *, limit: int
) -> Page[XComRow]:
    """List the XComs of a task instance by key; its result has the key `return_value`.

    Raises:
        NotFoundError: there is no such DAG, run, task or map index.
    """
    show_task_instance(connection, dag_id, run_id, task_id, map_index)
    run = find_run(connection, dag_id, run_id)
    wanted = {"run": run, "task_id": task_id, "map_index": map_index, "limit": limit + 1}
    rows = connection.execute(_LIST, wanted).mappings()
    return first((XComRow(**row, run_id=run_id, dag_id=dag_id) for row in rows), limit)
