"""The order of a DAG's tasks."""

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from turnout.tasks.errors import DagError

if TYPE_CHECKING:
    from turnout.tasks.operator import BaseOperator


def topological_order(dag_id: str, tasks: Mapping[str, "BaseOperator"]) -> list[str]:
    """Return the task ids, upstream first; the same graph always gives the same order.

    Raises:
        DagError: the graph has a cycle, which the message spells out.
    """
    graph = {task_id: sorted(tasks[task_id].upstream_task_ids) for task_id in sorted(tasks)}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        cycle = " >> ".join(error.args[1])
        raise DagError(f"DAG {dag_id!r} has a cycle: {cycle}. Remove one of these dependencies.") from None
