"""Connections to the metadata database, and the one way to run a transaction in it."""

import random
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Connection, Engine, create_engine, make_url
from sqlalchemy.exc import DBAPIError

from turnout.config.urls import without_password
from turnout.metadata.errors import DatabaseUnavailableError, MetadataError, SchemaError

__all__ = ["Connection", "Engine", "open_engine", "transact"]

#: A deadlock or a serialization failure is tried again so many times; each try halves the chance of another collision.
MAX_TRIES = 6
_CONFLICTS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
_STALE_SCHEMA = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)

T = TypeVar("T")


def open_engine(url: str, *, name: str, connections: int = 1, idle_in_transaction_s: float | None = None) -> Engine:
    """Open an engine; no connection is made yet.

    Args:
        url: a PostgreSQL URL (`postgresql://`, `postgres://` or `postgresql+psycopg://`).
        name: the application name that `pg_stat_activity` shows.
        connections: the most connections that the engine holds at the same time; a further caller waits.
        idle_in_transaction_s: after so long idle inside a transaction the server ends the session, so that a paused
            process gives up its row locks.
    """
    options = ["-c timezone=UTC"]
    if idle_in_transaction_s is not None:
        options.append(f"-c idle_in_transaction_session_timeout={int(idle_in_transaction_s * 1000)}")
    return create_engine(
        make_url(url).set(drivername="postgresql+psycopg"),
        pool_size=connections,
        max_overflow=0,
        pool_timeout=60,
        connect_args={
            "application_name": f"turnout {name}"[:63],
            "options": " ".join(options),
            "connect_timeout": 5,
            # A peer that is cut off is noticed after about ten seconds instead of many minutes.
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
        },
    )


def transact(engine: Engine, work: Callable[[Connection], T]) -> T:
    """Run `work` in one transaction and return its result.

    Deadlocks and serialization failures are retried with jitter, a connection found dead once at once. `work` may
    therefore run more than once; every statement here is a compare-and-set, so that a second run finds what is left.

    Raises:
        DatabaseUnavailableError: the database cannot be reached, or was lost on the way.
        SchemaError: a table or column is missing.
        MetadataError: the database refused a statement.
    """
    reconnected = False
    for attempt in range(1, MAX_TRIES + 1):
        try:
            with engine.begin() as connection:
                return work(connection)
        except DBAPIError as error:
            if attempt == MAX_TRIES:
                raise explain(error, engine) from error
            if isinstance(error.orig, _CONFLICTS):
                _back_off(attempt)
            elif error.connection_invalidated and not reconnected:
                reconnected = True
            else:
                raise explain(error, engine) from error
        except UnicodeEncodeError as error:  # raised by the driver before it sends anything
            raise MetadataError(
                "The metadata database refused a statement: a text holds half of a surrogate pair or a byte that is no "
                "UTF-8."
            ) from error
    raise AssertionError("the last try returns or raises")


def explain(error: DBAPIError, engine: Engine) -> MetadataError:
    """Turn a database error into one that a person can act on."""
    cause: Any = error.orig
    reason = " ".join(str(cause).split())
    if isinstance(cause, _STALE_SCHEMA):
        return SchemaError()
    if error.connection_invalidated or (isinstance(cause, psycopg.OperationalError) and not _said_by_server(cause)):
        where = without_password(engine.url.render_as_string(hide_password=False).replace("+psycopg", "", 1))
        return DatabaseUnavailableError(
            f"Cannot use the metadata database at {where}: {reason}. "
            "Check that PostgreSQL is running there and that TURNOUT_DATABASE_URL is right."
        )
    return MetadataError(f"The metadata database refused a statement: {reason}")


def is_about_statement(error: Exception) -> bool:
    """Tell an error of what was being done from a lost connection, a conflict, or tables of another version."""
    if not isinstance(error, DBAPIError):
        return True
    cause = error.orig
    if error.connection_invalidated or isinstance(cause, (*_CONFLICTS, *_STALE_SCHEMA)):
        return False
    return not isinstance(cause, psycopg.OperationalError) or _said_by_server(cause)


def _said_by_server(cause: psycopg.OperationalError) -> bool:
    """Tell an error of a statement (it has an SQLSTATE outside class 57, operator intervention) from a lost server."""
    return cause.sqlstate is not None and not cause.sqlstate.startswith(("57", "08"))


def _back_off(attempt: int) -> None:
    threading.Event().wait(random.uniform(0, 0.005 * 2**attempt))  # noqa: S311  jitter needs no cryptography
