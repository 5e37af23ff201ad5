"""The effective priority of each task, by Airflow's weight rules."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnout.tasks.operator import BaseOperator

WEIGHT_RULES = ("downstream", "upstream", "absolute")

#: The column is a 32-bit integer, as in Airflow.
_LEAST, _MOST = -(2**31), 2**31 - 1


def effective_weights(tasks: Mapping[str, "BaseOperator"], order: list[str]) -> dict[str, int]:
    """Compute the effective priority weight of every task.

    `downstream` adds the weights of all tasks that come after it, `upstream` of all that come before, `absolute` none
    (https://airflow.apache.org/docs/apache-airflow/stable/administration-and-deployment/priority-weight.html).

    Args:
        tasks: the tasks of a DAG by id.
        order: their ids in topological order.
    """
    after = _reachable(order[::-1], {task_id: task.downstream_task_ids for task_id, task in tasks.items()})
    before = _reachable(order, {task_id: task.upstream_task_ids for task_id, task in tasks.items()})
    reach = {"downstream": after, "upstream": before, "absolute": dict.fromkeys(order, 0)}
    holders = _holders({task_id: tasks[task_id].priority_weight for task_id in order})
    weights = {}
    for task_id, task in tasks.items():
        counted = reach[task.weight_rule][task_id]
        total = task.priority_weight + sum(w * (counted & mask).bit_count() for w, mask in holders.items())
        weights[task_id] = max(_LEAST, min(_MOST, total))
    return weights


def _reachable(order: list[str], neighbours: Mapping[str, set[str]]) -> dict[str, int]:
    """Return as bit masks over the sorted ids what can be reached from each task; `order` has neighbours first."""
    bits = {task_id: 1 << position for position, task_id in enumerate(sorted(order))}
    reachable: dict[str, int] = {}
    for task_id in order:
        mask = 0
        for neighbour in neighbours[task_id]:
            mask |= bits[neighbour] | reachable[neighbour]
        reachable[task_id] = mask
    return reachable


def _holders(weights: Mapping[str, int]) -> dict[int, int]:
    """Return for each weight the bit mask of the tasks that have it, so that a sum takes few steps."""
    holders: dict[int, int] = {}
    for position, task_id in enumerate(sorted(weights)):
        holders[weights[task_id]] = holders.get(weights[task_id], 0) | 1 << position
    return holders
