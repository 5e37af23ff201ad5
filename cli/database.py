"""The metadata database as commands use it: one short-lived connection."""

import getpass
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from turnout.cli.errors import NotUpError
from turnout.config.embedded import embedded_folder
from turnout.config.settings import Settings, load_settings
from turnout.metadata.engine import Connection, Engine, open_engine, transact

T = TypeVar("T")


@contextmanager
def open_database(settings: Settings) -> Iterator[Engine]:
    """Open the metadata database for the length of a `with` block.

    Raises:
        NotUpError: it would be the embedded one, which does not run.
    """
    if settings.database_url is None and not embedded_is_up(settings):
        raise NotUpError(
            f"Turnout is not up in {settings.home}: run `turnout up`, or set TURNOUT_DATABASE_URL to a PostgreSQL "
            "of yours."
        )
    engine = open_engine(settings.database.get_secret_value(), name="cli")
    try:
        yield engine
    finally:
        engine.dispose()


def in_database(work: Callable[[Connection], T]) -> T:
    """Run `work` in one transaction on the database of the settings, and return its result."""
    with open_database(load_settings()) as engine:
        return transact(engine, work)


def embedded_is_up(settings: Settings) -> bool:
    """Tell whether the embedded PostgreSQL of this home has its socket open."""
    return (embedded_folder(settings.home) / ".s.PGSQL.5432").exists()


def actor() -> str:
    """Name the person at the command line, for the audit log."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):  # a container's user need not have a name
        return f"cli:{os.geteuid()}"
