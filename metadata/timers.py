"""When a scheduler must wake up by itself."""

from sqlalchemy import Connection, text

#: How soon a scheduler looks after news that another one has in hand.
OTHERS_NEWS_S = 0.1

_NEXT_DUE = text("""
    SELECT extract(epoch FROM LEAST(
        (SELECT min(next_run_after) FROM dag WHERE is_active AND NOT is_paused AND next_run_after > now()),
        (SELECT min(run_after) FROM dag_run WHERE state = 'queued' AND run_after > now()),
        (SELECT min(timeout_at) FROM dag_run WHERE state = 'running' AND timeout_at > now()),
        (SELECT min(next_try_at) FROM task_instance
         WHERE state IN ('up_for_retry', 'up_for_reschedule') AND next_try_at > now()),
        (SELECT clock_timestamp() + make_interval(secs => :others_s) WHERE EXISTS (
             SELECT FROM wakeup w JOIN dag_run r ON r.id = w.dag_run_id
         ))
    ) - clock_timestamp())
""")


def seconds_until_next_due(connection: Connection) -> float | None:
    """Return the time until the next run, retry, reschedule or time-out of a run is due; None when nothing is.

    What is overdue already does not count: a pass over all steps has just done what can be done about it. News that it
    left behind are in the hands of another scheduler, which may die of it, so they are looked after soon.
    """
    seconds = connection.scalar(_NEXT_DUE, {"others_s": OTHERS_NEWS_S})
    return None if seconds is None else max(0.0, float(seconds))
