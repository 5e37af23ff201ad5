"""What an explanation needs to know of the tasks before one, in its run and in the run before."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, text

States = Mapping[str, Mapping[str, int]]
"""For each task id, the number of its instances in each state."""


@dataclass(frozen=True)
class PastRun:
    """The run of the DAG whose logical date is the next earlier one."""

    run_id: str
    state: str
    states: States  # of the tasks asked for


_STATES = text("""
    SELECT task_id, state, count(*) AS instances FROM task_instance
    WHERE dag_run_id = :run AND task_id = ANY(:tasks)
    GROUP BY task_id, state ORDER BY task_id, state
""")

_PAST_RUN = text("""
    SELECT b.id, b.run_id, b.state FROM dag_run r
    JOIN dag_run b ON b.dag_id = r.dag_id AND b.logical_date < r.logical_date
    WHERE r.id = :run ORDER BY b.logical_date DESC LIMIT 1
""")


def read_states(connection: Connection, dag_run_id: int, tasks: Collection[str]) -> States:
    """Count the instances of tasks of a run by state; a task that has none yet is left out."""
    found: dict[str, dict[str, int]] = {}
    for row in connection.execute(_STATES, {"run": dag_run_id, "tasks": sorted(tasks)}):
        found.setdefault(row.task_id, {})[row.state] = row.instances
    return found


def read_past_run(connection: Connection, dag_run_id: int, tasks: Collection[str]) -> PastRun | None:
    """Read the run before a run, and the states of tasks in it; None when there is none."""
    row = connection.execute(_PAST_RUN, {"run": dag_run_id}).one_or_none()
    return None if row is None else PastRun(row.run_id, row.state, read_states(connection, row.id, tasks))
