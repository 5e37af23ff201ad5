"""`turnout up` on servers that somebody else runs: the database and the broker of `TURNOUT_TEST_*`, or the suite's own.

A RabbitMQ cannot be embedded: its test is skipped unless `TURNOUT_TEST_RABBITMQ_URL` names one.
"""

import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kombu
import pytest
import redis

from tests.conftest import Servers
from tests.families import commands_below
from tests.home import Home

Eventually = Callable[..., Any]

DAG_FILE = """
from turnout.tasks import BashOperator, dag, task


@dag(schedule=None, is_paused_upon_creation=False, default_args={{"pool": {pool!r}}})
def served():
    @task
    def ask():
        return 21

    @task
    def double(found):
        return found * 2

    double(ask()) >> BashOperator(task_id="tell", bash_command="echo of {{{{ run_id }}}}")


served()
"""


@pytest.fixture
def external_database(servers: Servers) -> Iterator[str]:
    """The URL of an empty database."""
    url = os.environ.get("TURNOUT_TEST_DATABASE_URL")
    host = Servers(url, servers.broker_socket) if url else servers
    name = f"turnout_test_{uuid.uuid4().hex[:12]}"
    host.execute(f"CREATE DATABASE {name}")
    yield host.database(name)
    host.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def external_redis(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an empty database of a Redis or Valkey."""
    url = os.environ.get("TURNOUT_TEST_REDIS_URL")
    if url is None:
        yield request.getfixturevalue("broker_url")
        return
    for number in range(15, 0, -1):
        own = urlsplit(url)._replace(path=f"/{number}").geturl()
        with redis.Redis.from_url(own) as client:
            if not client.dbsize():
                yield own
                client.flushdb()
                return
    pytest.fail(f"Every database of {url} is in use.")


@pytest.fixture
def pool() -> str:
    """A name that nobody else uses: the virtual host of a RabbitMQ is shared."""
    return f"pool_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def external_rabbitmq(rabbitmq_url: str, pool: str) -> Iterator[str]:
    """The URL of a RabbitMQ, which has no more queues afterwards than before."""
    url = rabbitmq_url
    with kombu.Connection(url) as connection:
        made = [name for name in (f"{pool}.default", "default_pool.default") if not is_there(connection, name)]
    yield url
    with kombu.Connection(url) as connection:
        for name in made:
            connection.default_channel.queue_delete(name)


def is_there(connection: Any, queue: str) -> bool:
    """Tell whether a RabbitMQ has a queue."""
    with connection.channel() as channel:
        try:
            channel.queue_declare(queue, passive=True)
        except connection.channel_errors:
            return False
    return True


def run_a_dag(home: Home, pool: str, eventually: Eventually) -> None:
    """Bring the platform up, run a DAG in a pool, and bring it down."""
    platform = home.up("--schedulers", "1", "--workers", "1")
    eventually(lambda: home.json("dags", "list") == [])
    assert home.run("pools", "set", pool, "4").returncode == 0
    (home.path / "dags" / "served.py").write_text(DAG_FILE.format(pool=pool))
    eventually(lambda: home.json("dags", "list"))

    triggered = home.run("dags", "trigger", "served", "--run-id", "first", "--wait")
    assert triggered.returncode == 0, triggered.stderr
    states = {row["task_id"]: row["state"] for row in home.json("tasks", "list", "served", "first")}
    assert states == dict.fromkeys(("ask", "double", "tell"), "success")
    assert servers_of(platform.pid, home.path) == []

    platform.send_signal(signal.SIGTERM)
    assert platform.wait(60) == 0


def servers_of(pid: int, home: Path) -> list[str]:
    """List what a platform runs, or has prepared, of servers of its own."""
    programs = commands_below(pid).values()
    assert any("worker" in program for program in programs)
    return [program for program in programs if "bin/postgres" in program or "valkey-server" in program] + list(
        map(str, home.glob("servers/*"))
    )


@pytest.fixture
def make_home(tmp_path: Path, external_database: str) -> Iterator[Callable[[str], Home]]:
    homes: list[Home] = []

    def make(broker_url: str) -> Home:
        homes.append(Home(tmp_path / "home", TURNOUT_DATABASE_URL=external_database, TURNOUT_BROKER_URL=broker_url))
        return homes[-1]

    yield make
    for home in homes:
        home.kill()


def test_a_run_goes_through_postgresql_and_redis_that_somebody_else_runs(
    make_home: Callable[[str], Home], external_redis: str, pool: str, eventually: Eventually
) -> None:
    run_a_dag(make_home(external_redis), pool, eventually)


def test_a_run_goes_through_a_rabbitmq(
    external_rabbitmq: str, make_home: Callable[[str], Home], pool: str, eventually: Eventually
) -> None:
    run_a_dag(make_home(external_rabbitmq), pool, eventually)
    with kombu.Connection(external_rabbitmq) as connection:
        assert is_there(connection, f"{pool}.default")
