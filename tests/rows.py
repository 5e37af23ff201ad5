"""Rows for tests: small builders that insert what a scheduler and a DAG processor would."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from turnout.metadata import processes, queueing
from turnout.metadata.messages import AttemptMessage
from turnout.metadata.processes import Registration
from turnout.tasks.loading import load_file
from turnout.tasks.serialization import content_hash, serialize

DAGS = Path(__file__).parent / "dags"
LONG_LEASE_S = 3600


@dataclass(frozen=True)
class TaskRow:
    """A task instance as the tests look at it."""

    id: int
    task_id: str
    state: str
    try_number: int
    infra_failures: int
    attempt_id: Any
    worker_id: int | None
    outcome: str | None
    cause: str | None
    error: str | None


def insert_dags(connection: Connection, file_name: str, folder: Path = DAGS) -> dict[str, int]:
    """Insert the DAGs of a file with their first version; return the version ids by dag id."""
    return {dag.dag_id: _insert_dag(connection, serialize(dag), file_name) for dag in load_file(folder / file_name)}


def _insert_dag(connection: Connection, content: Mapping[str, Any], file_name: str) -> int:
    dag_id = content["dag_id"]
    version = connection.scalar(
        text("""
            INSERT INTO dag_version (dag_id, version_number, content_hash, content)
            VALUES (:dag_id, 1, :hash, CAST(:content AS jsonb)) RETURNING id
        """),
        {"dag_id": dag_id, "hash": content_hash(content), "content": json.dumps(content)},
    )
    connection.execute(
        text("""
            INSERT INTO dag (dag_id, is_paused, file_path, current_version_id, max_active_runs, max_active_tasks,
                             callbacks)
            VALUES (:dag_id, false, :file_path, :version, :runs, :tasks, :callbacks)
        """),
        {
            "dag_id": dag_id,
            "file_path": file_name,
            "version": version,
            "runs": content["max_active_runs"],
            "tasks": content["max_active_tasks"],
            "callbacks": content["callbacks"] or None,
        },
    )
    return int(version or 0)


def insert_run(
    connection: Connection, dag_id: str, run_id: str, tasks: Iterable[str] | None = None, conf: Any = None
) -> dict[str, int]:
    """Insert a running run with task instances in state `scheduled`; return their ids by task id.

    Args:
        connection: the transaction.
        dag_id: the DAG, whose current version the run gets.
        run_id: the run.
        tasks: task ids; all of the DAG when not given.
        conf: the conf of the run.
    """
    version, content = connection.execute(
        text("SELECT v.id, v.content FROM dag d JOIN dag_version v ON v.id = d.current_version_id WHERE d.dag_id = :d"),
        {"d": dag_id},
    ).one()
    run = connection.scalar(
        text("""
            INSERT INTO dag_run (dag_id, run_id, run_type, state, dag_version_id, run_after, conf)
            VALUES (:dag_id, :run_id, 'manual', 'running', :version, now(), CAST(:conf AS jsonb)) RETURNING id
        """),
        {"dag_id": dag_id, "run_id": run_id, "version": version, "conf": json.dumps(conf or {})},
    )
    wanted = content["tasks"] if tasks is None else {task_id: content["tasks"][task_id] for task_id in tasks}
    return {task_id: _insert_task(connection, dag_id, int(run or 0), task_id, spec) for task_id, spec in wanted.items()}


def _insert_task(connection: Connection, dag_id: str, run: int, task_id: str, spec: Mapping[str, Any]) -> int:
    values = {"dag_id": dag_id, "run": run, "task_id": task_id}
    taken = {key: spec[key] for key in ("pool", "pool_slots", "queue", "priority_weight")}
    row = connection.scalar(
        text("""
            INSERT INTO task_instance (dag_run_id, dag_id, task_id, state, max_tries, pool, pool_slots, queue,
                                       priority_weight, callbacks, scheduled_at)
            VALUES (:run, :dag_id, :task_id, 'scheduled', :retries, :pool, :pool_slots, :queue, :priority_weight,
                    :callbacks, now())
            RETURNING id
        """),
        {**values, **taken, "retries": spec["retries"], "callbacks": spec["callbacks"] or None},
    )
    return int(row or 0)


def insert_scheduler(connection: Connection, name: str = "test") -> int:
    """Register a scheduler that will not be declared dead while a test runs."""
    return processes.register(connection, Registration("scheduler", name, LONG_LEASE_S))


def queue_tasks(connection: Connection, scheduler_id: int, ids: Sequence[int]) -> list[AttemptMessage]:
    """Queue task instances as a scheduler does; the messages are to be published after the commit."""
    return queueing.queue_scheduled(connection, scheduler_id, ids)


def insert_pool(connection: Connection, name: str, slots: int) -> None:
    """Insert a pool."""
    connection.execute(text("INSERT INTO pool (name, slots) VALUES (:name, :slots)"), {"name": name, "slots": slots})


def read_task(connection: Connection, task_instance_id: int) -> TaskRow:
    """Read one task instance."""
    row = connection.execute(
        text("""
            SELECT id, task_id, state, try_number, infra_failures, attempt_id, worker_id, outcome, cause, error
            FROM task_instance WHERE id = :id
        """),
        {"id": task_instance_id},
    ).one()
    return TaskRow(**row._mapping)


def read_xcom(connection: Connection, task_instance_id: int) -> Any:
    """Read the return value of a task instance; None when there is none."""
    return connection.scalar(
        text("""
            SELECT x.value FROM xcom x JOIN task_instance t USING (dag_run_id, task_id, map_index)
            WHERE t.id = :id AND x.key = 'return_value'
        """),
        {"id": task_instance_id},
    )
