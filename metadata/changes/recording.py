"""Writing a change into the audit log."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from turnout.metadata import audit
from turnout.metadata.changes.plan import Changes, RunChange, TaskChange
from turnout.metadata.changes.selection import RunSelection, TaskSelection


def record(
    connection: Connection, actor: str, action: str, changes: Changes, asked: TaskSelection | RunSelection
) -> None:
    """Record a change: what was asked for, and how many task instances and runs went from which state to which.

    Args:
        connection: the transaction.
        actor: who did it.
        action: what was done, for example `task.clear`.
        changes: what changed.
        asked: the selection.
    """
    everything: list[TaskChange | RunChange] = [*changes.task_instances, *changes.dag_runs]
    runs = {change.dag_run_id for change in everything}
    tasks = {change.task_id for change in changes.task_instances}
    audit.record(
        connection,
        actor,
        action,
        dag_id=everything[0].dag_id,
        run_id=runs.pop() if len(runs) == 1 else None,
        task_id=tasks.pop() if len(tasks) == 1 else None,
        task_instances=_count(changes.task_instances),
        dag_runs=_count(changes.dag_runs),
        asked=_plain(asdict(asked)),
    )


def _count(changes: Iterable[TaskChange | RunChange]) -> dict[str, int]:
    return dict(Counter(f"{change.state} -> {change.new_state}" for change in changes))


def _plain(asked: dict[str, Any]) -> dict[str, Any]:
    """Write as JSON values what was asked for, without what was left open."""
    plain = {name: _plain(value) if isinstance(value, dict) else value for name, value in asked.items() if value}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in plain.items()}
