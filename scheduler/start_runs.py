"""Step 2, start runs: `queued` → `running` within `max_active_runs`, in turn over the DAGs."""

from turnout.metadata import runs
from turnout.metadata.engine import Connection


def start_runs(connection: Connection, limit: int) -> int:
    """Start the queued runs that may run now and create their task instances.

    Args:
        connection: the transaction.
        limit: most runs to start.

    Returns:
        How many runs were started.
    """
    return len(runs.start_queued(connection, limit))
