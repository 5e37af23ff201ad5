"""Callbacks as people read them: what was called for, and how it went."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from turnout.metadata.errors import NotFoundError
from turnout.metadata.listings.page import Page, first
from turnout.metadata.states import CallbackState


@dataclass(frozen=True)
class CallbackRow:
    """One callback."""

    id: int
    dag_id: str
    run_id: str
    task_id: str | None  # None: it is one of the run
    map_index: int | None
    try_number: int
    event: str
    state: str
    tries: int  # how often a worker has started it
    called_for_when: datetime
    start_date: datetime | None
    end_date: datetime | None
    worker: str | None
    error: str | None


_COLUMNS = """
    c.id, r.dag_id, r.run_id, t.task_id, t.map_index, c.try_number, c.event, c.state, c.tries,
    c.created_at AS called_for_when, c.called_at AS start_date, c.done_at AS end_date,
    COALESCE(w.name, 'process ' || c.worker_id) AS worker, c.problem AS error
"""
_SOURCES = """
    callback c
    JOIN dag_run r ON r.id = c.dag_run_id
    LEFT JOIN task_instance t ON t.id = c.task_instance_id
    LEFT JOIN process w ON w.id = c.worker_id
"""

_LIST = text(f"""
    SELECT {_COLUMNS} FROM {_SOURCES}
    WHERE (CAST(:dag_id AS text) IS NULL OR r.dag_id = :dag_id)
      AND (CAST(:state AS text) IS NULL OR c.state = :state)
    ORDER BY c.id DESC LIMIT :limit
""")  # noqa: S608  only constants of this module

_SAID = text("SELECT log FROM callback WHERE id = :id")


def list_callbacks(
    connection: Connection, limit: int, *, dag_id: str | None = None, state: CallbackState | None = None
) -> Page[CallbackRow]:
    """List callbacks, the last one first.

    Args:
        connection: the transaction.
        limit: most rows.
        dag_id: only those of this DAG.
        state: only those in this state.
    """
    rows = connection.execute(_LIST, {"dag_id": dag_id, "state": state, "limit": limit + 1})
    return first((CallbackRow(**row) for row in rows.mappings()), limit)


def read_callback_log(connection: Connection, callback_id: int) -> str:
    """Return what a callback has said, as the lines of a log; empty while it has not ended.

    Raises:
        NotFoundError: there is no such callback.
    """
    row = connection.execute(_SAID, {"id": callback_id}).one_or_none()
    if row is None:
        raise NotFoundError(f"There is no callback {callback_id}: `turnout callbacks list` shows which there are.")
    return row.log or ""
