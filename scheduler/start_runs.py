"""Step 2, start runs: `queued` → `running` within `max_active_runs`, in turn over the DAGs."""

from turnout.metadata import runs
from turnout.metadata.engine import Connection
from turnout.scheduler.guard import Each, together


def start_runs(connection: Connection, limit: int, each: Each = together) -> int:
    """Start the queued runs that may run now and create their task instances.

    Args:
        connection: the transaction.
        limit: most runs to start.
        each: how to deal with the DAGs; one by one when one of them makes trouble.

    Returns:
        How many runs were started.
    """
    dag_ids = runs.lock_dags_to_start(connection)
    started = each(dag_ids, lambda some: runs.start_queued(connection, some, limit), lambda dag_id: {"dag_id": dag_id})
    return sum(map(len, started))
