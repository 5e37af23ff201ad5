"""Saying where schedulers have to look after a person's change."""

from collections.abc import Sequence

from sqlalchemy import Connection, text

from turnout.metadata.wakeups import notify_schedulers

_WAKE = text("""
    INSERT INTO wakeup (dag_run_id)
    SELECT r.id FROM dag_run r WHERE r.id = ANY(CAST(:runs AS bigint[])) AND r.state = 'running'
    UNION
    SELECT n.id FROM dag_run r CROSS JOIN LATERAL (
        SELECT a.id, a.state FROM dag_run a
        WHERE a.dag_id = r.dag_id AND a.logical_date > r.logical_date
        ORDER BY a.logical_date LIMIT 1
    ) n
    WHERE r.id = ANY(CAST(:runs AS bigint[])) AND n.state = 'running'
""")


def wake(connection: Connection, runs: Sequence[int]) -> None:
    """Ask for a look at those of some runs that are running, and at those that come next and may wait for them.

    Schedulers are woken in any case: what ended has made room for others.
    """
    connection.execute(_WAKE, {"runs": list(runs)})
    notify_schedulers(connection)
