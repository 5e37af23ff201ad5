"""The database and the broker go away in the middle of a run, and come back."""

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine, make_url

from tests.conftest import Servers
from tests.platform import Platform
from tests.rabbitmq import OwnNode
from turnout.cli.local.servers import EmbeddedServers
from turnout.config.settings import Settings

Eventually = Callable[..., object]
#: A scheduler reports its last loop with a renewal of its lease: these have looked at leases since.
LOOPS_SINCE = """
    SELECT count(*) FROM process WHERE kind = 'scheduler' AND state = 'alive' AND heartbeat_at > :since
      AND last_loop_at > :since
"""


def assert_nothing_was_lost(platform: Platform, run_id: str, tasks: int) -> None:
    assert platform.states(run_id) == Counter(success=tasks)
    assert set(Counter(entry["attempt_id"] for entry in platform.ledger("start")).values()) == {1}
    assert platform.scalar("SELECT max(infra_failures) FROM task_instance") == 0
    assert platform.scalar("SELECT max(try_number) FROM task_instance") == 1


def test_running_tasks_outlive_an_outage_of_the_database_and_nobody_is_reaped_for_it(
    platform: Platform, servers: Servers, database_url: str, eventually: Eventually
) -> None:
    platform.declare("scripted.py", small=1)
    for number in (1, 2):
        platform.start("scheduler", f"scheduler-{number}", TURNOUT_WORKER__LEASE_S="6")
    platform.start("worker", "worker-1", "-q", "default,gpu", "-c", "2", TURNOUT_WORKER__LEASE_S="6")
    gate = platform.folder / "gate"
    run_id = platform.trigger("scripted", {"one": [f"wait_for:{gate}"]}, pids="/dev/null", command="true")
    eventually(lambda: "one" in {entry["task_id"] for entry in platform.ledger()})
    workers_before = platform.rows("SELECT id FROM process WHERE kind = 'worker'")
    name = make_url(database_url).database
    platform.engine.dispose()
    servers.execute(
        f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",  # noqa: S608
    )
    gate.touch()
    eventually(lambda: "one" in {entry["task_id"] for entry in platform.ledger("end")})
    for process in ("scheduler-1", "scheduler-2", "worker-1"):
        eventually(lambda process=process: platform.said(process, "outage.began"))
    # The worker is the last to notice that the database is back, after every lease has run out.
    platform.kill("worker-1", signal.SIGSTOP)
    servers.execute("SELECT pg_sleep(7)", f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    is_back = platform.scalar("SELECT clock_timestamp() + interval '1 second'")
    eventually(lambda: platform.scalar(LOOPS_SINCE, since=is_back) == 2)
    platform.kill("worker-1", signal.SIGCONT)

    eventually(lambda: platform.run_state(run_id) == "success", timeout_s=90)

    assert_nothing_was_lost(platform, run_id, 8)
    assert platform.rows("SELECT id FROM process WHERE kind = 'worker' AND state = 'alive'") == workers_before
    assert platform.scalar("SELECT count(*) FROM process WHERE state = 'dead'") == 0


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedServers]:
    with EmbeddedServers(tmp_path / "broker", postgres=False, durable=False) as broker:
        yield broker


@pytest.fixture
def frail(engine: Engine, database_url: str, own_broker: EmbeddedServers, tmp_path: Path) -> Iterator[Platform]:
    """A platform on a broker that may be stopped, and that then forgets everything."""
    settings = Settings(
        home=tmp_path, database_url=SecretStr(database_url), broker_url=SecretStr(own_broker.broker_url)
    )
    platform = Platform(engine, settings, tmp_path)
    yield platform
    platform.stop_all()


def test_a_broker_that_was_away_and_came_back_empty_loses_nothing(
    frail: Platform, own_broker: EmbeddedServers, eventually: Eventually
) -> None:
    frail.declare("fleet.py", small=5)
    for number in (1, 2):
        frail.start("scheduler", f"scheduler-{number}")
    frail.start("worker", "worker-1", "-q", "default,gpu,io", "-c", "2")
    frail.pretend_worker()
    gate = frail.folder / "gate"
    run_id = frail.trigger("fleet", {"*": [f"wait_for:{gate}"]})
    # Two run, and the messages of two or more are at the broker, and go with it.
    eventually(lambda: frail.states(run_id)["running"] == 2 and frail.states(run_id)["queued"] >= 2)
    valkey = own_broker.running[0]
    valkey.stop()
    second = frail.trigger("fleet")
    gate.touch()
    eventually(lambda: frail.states(run_id)["success"] >= 2)
    eventually(lambda: frail.states(second)["scheduled"] > 0)
    eventually(lambda: frail.said("worker-1", "outage.began"))
    with frail.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE process SET state = 'stopped' WHERE name = 'only-a-row'")
    valkey.start()

    eventually(lambda: frail.run_state(run_id) == frail.run_state(second) == "success", timeout_s=90)

    assert_nothing_was_lost(frail, run_id, 205)
    assert_nothing_was_lost(frail, second, 205)
    assert frail.scalar("SELECT count(*) FROM task_attempt WHERE cause = 'message_lost'") >= 1


@pytest.fixture
def own_rabbitmq(tmp_path: Path) -> Iterator[OwnNode]:
    folder = tmp_path / "rabbitmq"
    folder.mkdir()
    with OwnNode(folder) as node:
        yield node


@pytest.fixture
def frail_on_rabbitmq(engine: Engine, database_url: str, own_rabbitmq: OwnNode, tmp_path: Path) -> Iterator[Platform]:
    settings = Settings(home=tmp_path, database_url=SecretStr(database_url), broker_url=SecretStr(own_rabbitmq.url))
    platform = Platform(engine, settings, tmp_path)
    yield platform
    platform.stop_all()


def test_a_rabbitmq_that_was_away_and_came_back_without_its_queues_loses_nothing(
    frail_on_rabbitmq: Platform, own_rabbitmq: OwnNode, eventually: Eventually
) -> None:
    frail = frail_on_rabbitmq
    frail.declare("fleet.py", small=5)
    frail.start("scheduler", "scheduler-1")
    frail.start("worker", "worker-1", "-q", "default,gpu,io", "-c", "2")
    frail.pretend_worker()
    gate = frail.folder / "gate"
    run_id = frail.trigger("fleet", {"*": [f"wait_for:{gate}"]})
    eventually(lambda: frail.states(run_id)["running"] == 2 and frail.states(run_id)["queued"] >= 2)
    own_rabbitmq.stop()
    gate.touch()
    eventually(lambda: frail.states(run_id)["success"] >= 2)
    eventually(lambda: frail.said("worker-1", "outage.began"))
    with frail.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE process SET state = 'stopped' WHERE name = 'only-a-row'")
    own_rabbitmq.forget()
    own_rabbitmq.start()

    eventually(lambda: frail.run_state(run_id) == "success", timeout_s=180)

    assert_nothing_was_lost(frail, run_id, 205)
    assert frail.scalar("SELECT count(*) FROM task_attempt WHERE cause = 'message_lost'") >= 1
