"""The line of a pool: who stands before a waiting task instance."""

from sqlalchemy import Connection, text

from turnout.metadata.listings.explanations import Line
from turnout.metadata.listings.task_facts import TaskFacts, task_name
from turnout.metadata.queueing import ORDER_OF_THE_LINE, STANDS_BEFORE

_SHOWN = 3
#: Further than this nobody counts.
_MOST = 10_000

_COUNT = text(f"""
    SELECT count(*) FROM (
        SELECT 1 FROM task_instance t JOIN task_instance b ON b.pool = t.pool JOIN dag d ON d.dag_id = b.dag_id
        WHERE t.id = :id AND b.state = 'scheduled' AND (NOT d.is_paused OR b.dag_id = t.dag_id) AND {STANDS_BEFORE}
        LIMIT :most
    ) b
""")  # noqa: S608  only constants

_FIRST = text(f"""
    SELECT b.dag_id, r.run_id, b.task_id, b.map_index FROM (
        SELECT b.* FROM task_instance t JOIN task_instance b ON b.pool = t.pool JOIN dag d ON d.dag_id = b.dag_id
        WHERE t.id = :id AND b.state = 'scheduled' AND (NOT d.is_paused OR b.dag_id = t.dag_id) AND {STANDS_BEFORE}
        ORDER BY {ORDER_OF_THE_LINE.format("b")} LIMIT :shown
    ) b JOIN dag_run r ON r.id = b.dag_run_id
    ORDER BY {ORDER_OF_THE_LINE.format("b")}
""")  # noqa: S608  only constants


def read_line(connection: Connection, task: TaskFacts) -> Line:
    """Say where a waiting task instance stands among those of its pool that are not of paused DAGs."""
    before = connection.scalar(_COUNT, {"id": task.id, "most": _MOST}) or 0
    first = connection.execute(_FIRST, {"id": task.id, "shown": _SHOWN}).all() if before else []
    return Line(
        pool=task.pool,
        queue=task.queue,
        before=before,
        is_cut=before == _MOST,
        first=[task_name(row.dag_id, row.run_id, row.task_id, row.map_index) for row in first],
        run_priority=task.run_priority,
        priority_weight=task.priority_weight,
        run_date=task.run_date,
    )
