"""Step 2, start runs: `queued` → `running` within `max_active_runs`, in turn over the DAGs."""

from turnout.config.settings import BACKFILL_SHARE
from turnout.metadata.engine import Connection
from turnout.metadata.starting import Starts, lock_dags_to_start, start_queued
from turnout.scheduler.guard import TOGETHER, Each
from turnout.scheduler.turns import share_out


def start_runs(
    connection: Connection, limit: int, each: Each = TOGETHER, backfill_share: float = BACKFILL_SHARE
) -> int:
    """Start the queued runs that may run now and create their task instances.

    Args:
        connection: the transaction.
        limit: most runs to start.
        each: how to deal with the DAGs; one by one when one of them makes trouble.
        backfill_share: the part of a DAG's `max_active_runs` that is guaranteed to its backfills.

    Returns:
        How many runs were started.
    """
    starts = share_out(lock_dags_to_start(connection, limit), limit, backfill_share)
    started = each(starts, lambda some: start_queued(connection, some), _words)
    return sum(map(len, started))


def _words(start: Starts) -> dict[str, str]:
    return {"dag_id": start.dag_id, "step": "start_runs"}
