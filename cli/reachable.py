"""Whether the database, the broker and the log store of the settings can be used."""

from dataclasses import dataclass
from typing import Literal

from turnout.cli.database import open_database
from turnout.cli.errors import NotUpError
from turnout.config.embedded import VALKEY_SOCKET, embedded_folder
from turnout.config.errors import TurnoutError
from turnout.config.settings import Settings
from turnout.executor.log_store import LogStore
from turnout.executor.publisher import CeleryBroker
from turnout.metadata.messages import celery_queue
from turnout.metadata.migrate import require_current, status
from turnout.metadata.pools import DEFAULT_POOL

_STARTS_WITH_UP = "`turnout up` starts it"


@dataclass(frozen=True)
class Check:
    """What a check found."""

    name: str
    state: Literal["ok", "not up", "failed"]  # not up: embedded, and Turnout is not running
    detail: str


def check_database(settings: Settings) -> Check:
    """Connect to the metadata database and look at its tables."""
    try:
        with open_database(settings) as engine:
            found = status(engine)
            require_current(engine)
    except NotUpError:
        return Check("database", "not up", _STARTS_WITH_UP)
    except TurnoutError as error:
        return Check("database", "failed", str(error))
    return Check("database", "ok", f"PostgreSQL {found.server_version}, revision {found.current}")


def check_broker(settings: Settings) -> Check:
    """Connect to the broker and ask it for the depth of a queue."""
    if settings.broker_url is None and not (embedded_folder(settings.home) / VALKEY_SOCKET).exists():
        return Check("broker", "not up", _STARTS_WITH_UP)
    broker = CeleryBroker(settings)
    try:
        broker.depths([celery_queue(DEFAULT_POOL, "default")])
    except TurnoutError as error:
        return Check("broker", "failed", str(error))
    finally:
        broker.close()
    return Check("broker", "ok", "it answers")


def check_log_store(url: str) -> Check:
    """Write to the store of logs."""
    try:
        LogStore(url).check()
    except TurnoutError as error:
        return Check("logs", "failed", str(error))
    return Check("logs", "ok", "the store takes them")
