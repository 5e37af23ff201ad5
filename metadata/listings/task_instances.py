"""Task instances as people read them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from turnout.metadata.errors import NotFoundError
from turnout.metadata.listings.missing import no_such
from turnout.metadata.listings.page import Page, first
from turnout.metadata.listings.runs import find_run


@dataclass(frozen=True)
class TaskInstanceRow:
    """A task instance, with its current attempt."""

    id: int
    dag_id: str
    dag_run_id: str
    task_id: str
    map_index: int
    state: str
    operator: str | None
    try_number: int
    max_tries: int
    infra_failures: int
    logical_date: datetime | None
    run_after: datetime
    scheduled_when: datetime | None
    queued_when: datetime | None
    start_date: datetime | None
    end_date: datetime | None
    duration: float | None  # seconds
    next_try_when: datetime | None
    pool: str
    pool_slots: int
    queue: str
    priority_weight: int
    worker: str | None
    hostname: str | None
    outcome: str | None
    cause: str | None
    error: str | None


_SELECT = """
    SELECT t.id, t.dag_id, r.run_id AS dag_run_id, t.task_id, t.map_index, t.state,
           v.content #>> ARRAY['tasks', t.task_id, 'operator'] AS operator, t.try_number, t.max_tries,
           t.infra_failures, r.logical_date, r.run_after, t.scheduled_at AS scheduled_when, t.queued_at AS queued_when,
           t.started_at AS start_date, t.ended_at AS end_date,
           CAST(extract(epoch FROM t.ended_at - t.started_at) AS float8) AS duration, t.next_try_at AS next_try_when,
           t.pool, t.pool_slots, t.queue, t.priority_weight, w.name AS worker, w.hostname, t.outcome, t.cause, t.error
    FROM task_instance t
    JOIN dag_run r ON r.id = t.dag_run_id
    LEFT JOIN dag_version v ON v.id = r.dag_version_id
    LEFT JOIN process w ON w.id = t.worker_id
"""

#: In the order in which they ran; those that have not started come last.
_LIST = text(f"""{_SELECT}
    WHERE t.dag_run_id = :run AND (CAST(:state AS text) IS NULL OR t.state = :state)
    ORDER BY t.started_at, t.ended_at, t.task_id, t.map_index LIMIT :limit
""")

_SHOW = text(f"{_SELECT} WHERE t.dag_run_id = :run AND t.task_id = :task_id AND t.map_index = :map_index")


def list_task_instances(
    connection: Connection, dag_id: str, run_id: str, limit: int, *, state: str | None = None
) -> Page[TaskInstanceRow]:
    """List the task instances of a run, in the order in which they ran.

    Raises:
        NotFoundError: there is no such DAG, or no such run of it.
    """
    run = find_run(connection, dag_id, run_id)
    rows = connection.execute(_LIST, {"run": run, "state": state, "limit": limit + 1})
    return first((TaskInstanceRow(**row) for row in rows.mappings()), limit)


def show_task_instance(
    connection: Connection, dag_id: str, run_id: str, task_id: str, map_index: int
) -> TaskInstanceRow:
    """Read one task instance.

    Raises:
        NotFoundError: there is no such DAG, run, task or map index.
    """
    run = find_run(connection, dag_id, run_id)
    wanted = {"run": run, "task_id": task_id, "map_index": map_index}
    row = connection.execute(_SHOW, wanted).mappings().one_or_none()
    if row is None:
        raise no_such_task(connection, run, (dag_id, run_id, task_id), map_index)
    return TaskInstanceRow(**row)


def no_such_task(
    connection: Connection, run: int, names: tuple[str, str, str], map_index: int, declared: Iterable[str] = ()
) -> NotFoundError:
    """Make the error for a task instance that is not there.

    Args:
        connection: where to read.
        run: the key of the run's row.
        names: the ids of the DAG, the run and the task.
        map_index: its index.
        declared: the tasks that the run will have once it has started.
    """
    dag_id, run_id, task_id = names
    known = set(connection.scalars(text("SELECT task_id FROM task_instance WHERE dag_run_id = :run"), {"run": run}))
    look = f"See `turnout tasks list {dag_id} {run_id}`."
    if task_id in known.union(declared):
        return no_such(f"instance of task {task_id} with map index", str(map_index), [], look)
    return no_such(f"task in run {run_id} of DAG {dag_id} called", task_id, known.union(declared), look)
