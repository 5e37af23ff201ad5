"""How long a task waits before it is tried again."""

import math
from collections.abc import Mapping
from typing import Any
from uuid import UUID

#: Airflow's default of `core.max_task_retry_delay`.
LONGEST_DELAY_S = 86_400


def retry_delay_s(spec: Mapping[str, Any], failures: int, attempt_id: UUID) -> float:
    """Compute the delay before the next try, in seconds.

    The rule is that of Airflow 3 (`TaskInstance.next_retry_datetime` in apache/airflow,
    airflow-core/src/airflow/models/taskinstance.py): without a multiplier the delay is constant; with one,
    `d = delay * multiplier ** (failures - 1)` in whole seconds, at least 1, and the delay is spread evenly from `d` to
    `2 * d`, up to `max_retry_delay` and a day. Airflow takes the spread from a hash of the try; we take it from the
    attempt's id, so that every process computes the same.

    Args:
        spec: the task's entry in the serialized DAG.
        failures: how often the task has failed in this run, this time included.
        attempt_id: the attempt that has just failed.
    """
    delay: float = spec["retry_delay_s"]
    multiplier: float = spec["retry_exponential_backoff"]
    if multiplier in (0, 1):
        return delay
    least = _grown(delay, multiplier, failures)
    spread = min(least + attempt_id.int % least, LONGEST_DELAY_S)
    longest: float | None = spec["max_retry_delay_s"]
    return float(spread) if longest is None else min(float(spread), longest)


def _grown(delay: float, multiplier: float, failures: int) -> int:
    try:
        return max(1, min(LONGEST_DELAY_S, math.ceil(delay * multiplier ** (failures - 1))))
    except OverflowError:
        return LONGEST_DELAY_S
