"""Wake-ups: rows that say where to look, and a NOTIFY that says that there is something to look at.

A wake-up is never the ground for a decision, only the reason for one; a lost one is caught by the sweep.
"""

import threading
from collections.abc import Callable
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from turnout.metadata.engine import explain
from turnout.metadata.errors import DatabaseUnavailableError

#: What schedulers listen on. The payload is empty, so that PostgreSQL folds several of one transaction into one.
CHANNEL = "turnout_scheduler"


def notify_schedulers(connection: Connection) -> None:
    """Wake the sleeping schedulers when this transaction commits; at most once in a batch, never from a trigger."""
    connection.execute(text("SELECT pg_notify(:channel, '')"), {"channel": CHANNEL})


def leave_for_active_runs(connection: Connection) -> int:
    """Ask for a look at every running run that has no wake-up yet: the sweep that catches a lost one."""
    return connection.execute(
        text("""
            INSERT INTO wakeup (dag_run_id)
            SELECT r.id FROM dag_run r
            WHERE r.state = 'running' AND NOT EXISTS (SELECT 1 FROM wakeup w WHERE w.dag_run_id = r.id)
        """)
    ).rowcount


def discard_orphans(connection: Connection) -> int:
    """Delete wake-ups of runs that are no longer there."""
    # Each is looked up by itself: for a join, PostgreSQL might read all of dag_run.
    return connection.execute(
        text("DELETE FROM wakeup w WHERE (SELECT r.id FROM dag_run r WHERE r.id = w.dag_run_id) IS NULL")
    ).rowcount


def listen(engine: Engine, on_notify: Callable[[], None], stopping: threading.Event, check_s: float = 1.0) -> None:
    """Call `on_notify` for every notification until `stopping` is set.

    It holds one connection of the engine for itself, and calls `on_notify` once at the start, since notifications sent
    before are gone.

    Args:
        engine: an engine whose only user is this listener.
        on_notify: called from this thread; it must be quick.
        stopping: ends the loop.
        check_s: how often `stopping` is looked at, in seconds.

    Raises:
        MetadataError: the connection was lost.
    """
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(f"LISTEN {CHANNEL}"))
            on_notify()
            driver: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]
            try:
                while not stopping.is_set():
                    for _ in driver.notifies(timeout=check_s, stop_after=1):
                        on_notify()
            except psycopg.Error as error:
                connection.invalidate()
                reason = " ".join(str(error).split())
                raise DatabaseUnavailableError(f"The connection that listens was lost: {reason}") from error
    except DBAPIError as error:
        raise explain(error, engine) from error
