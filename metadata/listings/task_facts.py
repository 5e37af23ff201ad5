"""What an explanation needs to know of one task instance, its run and its DAG."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from turnout.metadata.versions import Content


@dataclass(frozen=True)
class TaskFacts:
    """One task instance with its surroundings."""

    id: int
    now: datetime
    dag_run_id: int
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    state: str
    try_number: int
    max_tries: int
    infra_failures: int
    pool: str
    pool_slots: int
    extra_pools: Mapping[str, int] | None
    queue: str
    run_priority: int
    priority_weight: int
    run_date: datetime
    max_active_tis_per_dag: int | None
    max_active_tis_per_dagrun: int | None
    queued_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    next_try_at: datetime | None
    cause: str | None
    error: str | None
    scheduler: str | None
    scheduler_is_alive: bool
    worker: str | None
    worker_is_alive: bool
    worker_heartbeat_at: datetime | None
    hostname: str | None
    run_state: str
    max_active_tasks: int
    is_paused: bool
    is_active: bool
    file_path: str
    import_error: str | None
    import_error_line: int | None
    import_error_at: datetime | None
    content: Content | None

    @property
    def pools(self) -> dict[str, int]:
        """The slots that it needs of each pool."""
        return {self.pool: self.pool_slots, **(self.extra_pools or {})}

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return task_name(self.dag_id, self.run_id, self.task_id, self.map_index)

    @property
    def task(self) -> Mapping[str, Any] | None:
        """What its DAG's version says of the task; None when that has no such task."""
        task: Mapping[str, Any] | None = self.content["tasks"].get(self.task_id) if self.content else None
        return task


_FACTS = text("""
    SELECT t.id, clock_timestamp() AS now, t.dag_run_id, t.dag_id, r.run_id, t.task_id, t.map_index, t.state,
           t.try_number, t.max_tries, t.infra_failures, t.pool, t.pool_slots, t.extra_pools, t.queue, t.run_priority,
           t.priority_weight, t.run_date, t.max_active_tis_per_dag, t.max_active_tis_per_dagrun, t.queued_at,
           t.started_at, t.ended_at, t.next_try_at, t.cause, t.error,
           s.name AS scheduler, COALESCE(s.state = 'alive' AND s.lease_expires_at > clock_timestamp(), false)
               AS scheduler_is_alive,
           w.name AS worker, COALESCE(w.state = 'alive' AND w.lease_expires_at > clock_timestamp(), false)
               AS worker_is_alive,
           w.heartbeat_at AS worker_heartbeat_at, w.hostname, r.state AS run_state, d.max_active_tasks, d.is_paused,
           d.is_active, d.file_path, e.message AS import_error, e.line AS import_error_line, e.at AS import_error_at,
           v.content
    FROM task_instance t
    JOIN dag_run r ON r.id = t.dag_run_id
    JOIN dag d ON d.dag_id = r.dag_id
    LEFT JOIN dag_version v ON v.id = r.dag_version_id
    LEFT JOIN import_error e ON e.file_path = d.file_path
    LEFT JOIN process s ON s.id = t.scheduler_id
    LEFT JOIN process w ON w.id = t.worker_id
    WHERE t.dag_run_id = :run AND t.task_id = :task_id AND t.map_index = :map_index
""")


_KEEPER = text("""
    SELECT t.dag_id, r.run_id, t.task_id, t.map_index,
           CASE WHEN t.pool = :pool THEN t.pool_slots ELSE CAST(t.extra_pools ->> :pool AS int) END AS slots
    FROM task_instance t JOIN dag_run r ON r.id = t.dag_run_id WHERE t.id = :id
""")


def read_task_facts(connection: Connection, dag_run_id: int, task_id: str, map_index: int) -> TaskFacts | None:
    """Read what is known of a task instance; None when there is none."""
    row = (
        connection.execute(_FACTS, {"run": dag_run_id, "task_id": task_id, "map_index": map_index})
        .mappings()
        .one_or_none()
    )
    return None if row is None else TaskFacts(**row)


def read_keeper(connection: Connection, task_instance_id: int, pool: str) -> tuple[str, int]:
    """Name the task instance for which slots of a pool are kept, and say how many it needs there."""
    row = connection.execute(_KEEPER, {"id": task_instance_id, "pool": pool}).one()
    return task_name(row.dag_id, row.run_id, row.task_id, row.map_index), row.slots


def task_name(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """Call a task instance as the command line does."""
    return f"{dag_id} {run_id} {task_id}" + (f" --map-index {map_index}" if map_index >= 0 else "")
