"""A DAG as JSON: what the metadata database keeps, and what schedulers decide from.

The same DAG always gives the same content, whatever the order of its sets and dicts, the process, or the file's place.
"""

import functools
import hashlib
import json
import math
import re
from collections.abc import Mapping
from datetime import date, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

from turnout.tasks.callbacks import events_of
from turnout.tasks.declaring import MODULE_PREFIX
from turnout.tasks.references import DagParam, XComArg
from turnout.tasks.setups import tasks_behind_setups
from turnout.tasks.timetables import timetable_to_json
from turnout.tasks.weights import effective_weights

if TYPE_CHECKING:
    from turnout.tasks.dags import DAG
    from turnout.tasks.operator import BaseOperator

#: Changes when the meaning of the content changes, so that old versions are told apart.
FORMAT = 1

#: What differs from process to process in a `repr`: memory addresses, and the module of the DAG file.
_FLEETING = re.compile(rf" at 0x[0-9a-fA-F]+|\b{MODULE_PREFIX}\w+\.")


def serialize(dag: "DAG") -> dict[str, Any]:
    """Write a DAG as JSON values.

    Raises:
        DagError: the graph has a cycle.
    """
    weights = effective_weights(dag.task_dict, dag.topological_order())
    behind = tasks_behind_setups(dag.task_dict)
    return {
        "format": FORMAT,
        "dag_id": dag.dag_id,
        "description": as_json(dag.description),
        "doc_md": as_json(dag.doc_md),
        "owner": as_json(dag.owner),
        "schedule": timetable_to_json(dag.timetable),
        "start_date": None if dag.start_date is None else dag.start_date.isoformat(),
        "end_date": None if dag.end_date is None else dag.end_date.isoformat(),
        "catchup": str(dag.catchup),
        "jitter_s": None if dag.jitter is None else dag.jitter.total_seconds(),
        "tags": as_json(dag.tags),
        "params": as_json(dag.params),
        "max_active_runs": dag.max_active_runs,
        "max_active_tasks": dag.max_active_tasks,
        "max_consecutive_failed_dag_runs": dag.max_consecutive_failed_dag_runs,
        "dagrun_timeout_s": None if dag.dagrun_timeout is None else dag.dagrun_timeout.total_seconds(),
        "fail_fast": dag.fail_fast,
        "is_paused_upon_creation": dag.is_paused_upon_creation,
        "callbacks": events_of(dag),
        "tasks": {
            task_id: _task(dag.task_dict[task_id], weights[task_id], behind) for task_id in sorted(dag.task_dict)
        },
    }


def content_hash(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of serialized content, in hexadecimal."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def as_json(value: Any) -> Any:
    """Write any value of an author as JSON values that depend on nothing but the value.

    Sets are sorted; what JSON does not have is written as text, without memory addresses.
    """
    if isinstance(value, Mapping):
        return {str(as_json(key)): as_json(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, set | frozenset):
        return sorted(map(as_json, value), key=functools.partial(json.dumps, sort_keys=True))
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    """Write a value that holds no others."""
    match value:
        case Enum():
            written = as_json(value.value)
        case None | bool() | int():
            written = value
        case float():
            written = value if math.isfinite(value) else str(value)
        case XComArg():
            written = {"xcom": value.operator.task_id, "path": list(value.path)}
        case DagParam():
            written = {"param": value.name}
        case date():
            written = value.isoformat()
        case timedelta():
            written = value.total_seconds()
        case _:
            written = _storable(value if isinstance(value, str) else _description(value))
    return written


def _task(task: "BaseOperator", weight: int, behind: Mapping[str, set[str]]) -> dict[str, Any]:
    return {
        "operator": task.operator_name,
        "sends_to_worker": task.sends_to_worker,
        "downstream": sorted(task.downstream_task_ids),
        "upstream": sorted(task.upstream_task_ids),
        "trigger_rule": str(task.trigger_rule),
        "is_setup": task.is_setup,
        "is_teardown": task.is_teardown,
        "on_failure_fail_dagrun": task.on_failure_fail_dagrun,
        "setups": sorted(setup for setup, tasks in behind.items() if task.task_id in tasks),
        "setup_for": sorted(behind.get(task.task_id, ())),
        "retries": task.retries,
        "retry_delay_s": task.retry_delay.total_seconds(),
        "retry_exponential_backoff": task.retry_exponential_backoff,
        "max_retry_delay_s": None if task.max_retry_delay is None else task.max_retry_delay.total_seconds(),
        "execution_timeout_s": None if task.execution_timeout is None else task.execution_timeout.total_seconds(),
        "memory_limit_mb": task.memory_limit_mb,
        "cpu_time_limit_s": None if task.cpu_time_limit is None else task.cpu_time_limit.total_seconds(),
        "pool": task.pool,
        "pool_slots": task.pool_slots,
        "extra_pools": task.extra_pools or None,
        "max_active_tis_per_dag": task.max_active_tis_per_dag,
        "max_active_tis_per_dagrun": task.max_active_tis_per_dagrun,
        "depends_on_past": task.depends_on_past,
        "wait_for_downstream": task.wait_for_downstream,
        "queue": task.queue,
        "priority_weight": weight,
        "callbacks": events_of(task),
        "owner": as_json(task.owner),
        "doc_md": as_json(task.doc_md),
        "fields": _fields(task),
    }


def _fields(task: "BaseOperator") -> dict[str, Any]:
    """Write the template fields that have a value."""
    fields = {name: getattr(task, name) for name in sorted(task.rendered_fields)}
    return {name: as_json(value) for name, value in fields.items() if value is not None}


def _description(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    if callable(value) and isinstance(name, str):
        return f"<{name}>"
    try:
        return _FLEETING.sub("", repr(value))
    except Exception:  # noqa: BLE001 - an author's __repr__ may be broken
        return f"<{type(value).__qualname__}>"


def _storable(text: str) -> str:
    """Replace what PostgreSQL's jsonb cannot hold in a text: NUL, and halves of surrogate pairs."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
