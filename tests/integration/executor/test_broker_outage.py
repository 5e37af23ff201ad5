"""A broker that goes away and comes back empty, while a worker has work."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.executor.conftest import Stage, WorkerProcess, eventually
from turnout.cli.local.server import EmbeddedServer
from turnout.cli.local.servers import EmbeddedServers
from turnout.metadata.messages import BrokerUnavailableError


@pytest.fixture
def own_servers(tmp_path: Path) -> Iterator[EmbeddedServers]:
    with EmbeddedServers(tmp_path / "servers", postgres=False, durable=False) as servers:
        yield servers


@pytest.fixture
def broker_url(own_servers: EmbeddedServers) -> str:
    return own_servers.broker_url


@pytest.fixture
def valkey(own_servers: EmbeddedServers) -> EmbeddedServer:
    return own_servers.running[0]


def test_work_goes_on_without_a_broker_and_new_work_starts_when_it_is_back(
    stage: Stage, worker: WorkerProcess, valkey: EmbeddedServer
) -> None:
    gate = stage.settings.home / "gate"
    ids = stage.publish({"one": [f"wait_for:{gate}"], "limited": ["hang"]})
    stage.wait_for_start(2)
    valkey.stop()
    worker.wait_for("outage.began")
    gate.touch()
    stage.wait(ids["one"], "success")
    assert stage.wait(ids["limited"], "failed").cause == "timeout"
    later = stage.insert({"two": ["succeed"]})
    messages = stage.queue(later["two"])
    with pytest.raises(BrokerUnavailableError):
        stage.broker.publish(messages)
    valkey.start()
    stage.broker.publish(messages)
    stage.wait(later["two"], "success")
    worker.wait_for("outage.over")


def test_a_worker_can_be_stopped_while_the_broker_is_away(
    stage: Stage, start_worker: Callable[..., WorkerProcess], valkey: EmbeddedServer
) -> None:
    gate = stage.settings.home / "gate"
    worker = start_worker()
    ids = stage.publish({"one": [f"wait_for:{gate}"]})
    stage.wait_for_start()
    valkey.stop()
    worker.wait_for("outage.began")
    worker.process.terminate()
    worker.wait_for("worker.draining")
    gate.touch()
    assert worker.wait() == 0
    assert eventually(lambda: stage.task(ids["one"]).state) == "success"
