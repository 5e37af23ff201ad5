"""Servers for the whole suite: embedded ones, one pair for a session, a database and a broker of its own for each test.

No test depends on a server that happens to run on this machine.
"""

import fcntl
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
import redis
from sqlalchemy import Engine, create_engine, make_url, text

from tests import law
from turnout.cli.local.servers import EmbeddedServers
from turnout.metadata.engine import open_engine, transact
from turnout.metadata.migrate import migrate

T = TypeVar("T")
_numbers = itertools.count(1)
#: Valkey has 16 databases; number 0 is left alone.
_BROKERS = 15


def pytest_configure() -> None:
    """Let the processes that tests start hear signals that a shell's `&`, or nohup, has this one ignore.

    A signal that is ignored stays so in every process started from here.
    """
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@dataclass(frozen=True)
class Servers:
    """The servers of this session."""

    database_url: str  # of a database that only makes others
    broker_socket: Path

    def execute(self, *statements: str) -> None:
        """Run statements outside a transaction, as CREATE DATABASE demands."""
        url = make_url(self.database_url).set(drivername="postgresql+psycopg")
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
        engine.dispose()

    def database(self, name: str) -> str:
        """The URL of another database of the server."""
        return make_url(self.database_url).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with EmbeddedServers(tmp_path_factory.mktemp("home"), durable=False) as embedded:
        socket = Path(embedded.broker_url.removeprefix("redis+socket://"))
        yield Servers(embedded.database_url, socket)


@pytest.fixture(scope="session")
def template(servers: Servers) -> str:
    """The name of a database that has the tables, and refuses changes of state that the law does not know."""
    name = f"template_{os.getpid()}"
    servers.execute(f"CREATE DATABASE {name}")
    engine = open_engine(servers.database(name), name="test")
    migrate(engine)
    transact(engine, law.enforce)
    engine.dispose()
    return name


@pytest.fixture
def database_url(servers: Servers, template: str) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    servers.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    yield servers.database(name)
    servers.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = open_engine(database_url, name="test", connections=5)
    yield engine
    engine.dispose()


@pytest.fixture
def broker_number() -> int:
    return next(_numbers) % _BROKERS + 1


@pytest.fixture
def broker_client(servers: Servers, broker_number: int) -> Iterator["redis.Redis"]:
    """The broker itself, empty, to look into and to break."""
    client = redis.Redis(unix_socket_path=str(servers.broker_socket), db=broker_number, decode_responses=True)
    client.flushdb()
    yield client
    client.flushdb()
    client.close()


@pytest.fixture
def broker_url(servers: Servers, broker_number: int, broker_client: "redis.Redis") -> str:
    assert broker_client.ping()
    return f"redis+socket://{servers.broker_socket}?virtual_host={broker_number}"


@pytest.fixture
def rabbitmq_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A RabbitMQ, which cannot be embedded; this test has its queues for itself, however many run at the same time."""
    url = os.environ.get("TURNOUT_TEST_RABBITMQ_URL")
    if url is None:
        pytest.skip("TURNOUT_TEST_RABBITMQ_URL names no RabbitMQ")
    with (tmp_path_factory.getbasetemp().parent / "rabbitmq.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield url


@pytest.fixture
def patient_reaper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a reaper wait for the answer of a broker that is well, however busy the machine is."""
    monkeypatch.setattr("turnout.scheduler.lost_messages.PATIENCE_S", 60.0)


@pytest.fixture(scope="session")
def eventually() -> Callable[..., object]:
    """Wait until a check gives a true result, and return it."""

    def wait(check: Callable[[], T], timeout_s: float = 60) -> T:
        pause, end = threading.Event(), time.monotonic() + timeout_s
        while not (result := check()):
            assert time.monotonic() < end, f"it did not happen within {timeout_s} s: {check}"
            pause.wait(0.02)
        return result

    return wait
