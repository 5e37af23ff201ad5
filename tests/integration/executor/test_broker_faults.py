"""A worker behind a network that fails: its broker accepts connections and answers nothing."""

import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.conftest import Servers
from tests.integration.executor.conftest import ON_BOTH_BROKERS, Stage, WorkerProcess
from tests.proxy import Proxy
from turnout.metadata.messages import BrokerUnavailableError


@pytest.fixture
def proxy(broker_kind: str, servers: Servers, request: pytest.FixtureRequest) -> Iterator[Proxy]:
    server: tuple[str, int] | Path = servers.broker_socket
    if broker_kind == "rabbitmq":
        url = urlsplit(request.getfixturevalue("own_rabbitmq"))
        server = (url.hostname or "127.0.0.1", url.port or 5672)
    with Proxy(server) as proxy:
        yield proxy


@pytest.fixture
def broker_url(broker_kind: str, proxy: Proxy, broker_number: int, request: pytest.FixtureRequest) -> str:
    if broker_kind == "valkey":
        assert request.getfixturevalue("own_valkey")
        return f"redis://127.0.0.1:{proxy.port}/{broker_number}"
    url = urlsplit(request.getfixturevalue("own_rabbitmq"))
    login = url.netloc.rpartition("@")[0]
    return url._replace(netloc=f"{login}@127.0.0.1:{proxy.port}").geturl()


@ON_BOTH_BROKERS
def test_what_runs_is_recorded_while_the_broker_hangs_and_new_work_starts_afterwards(
    stage: Stage, worker: WorkerProcess, proxy: Proxy
) -> None:
    gate = stage.settings.home / "gate"
    ids = stage.publish({"one": [f"wait_for:{gate}"], "limited": ["hang"]})
    stage.wait_for_start(2)
    proxy.hang()
    gate.touch()
    assert stage.wait(ids["one"], "success").try_number == 1
    assert stage.wait(ids["limited"], "failed").cause == "timeout"
    messages = stage.queue(stage.insert({"one": ["succeed"]})["one"])
    with pytest.raises(BrokerUnavailableError):
        stage.broker.depths(["default_pool.default"])
    proxy.forward()
    stage.broker.publish(messages)
    stage.wait(messages[0].task_instance_id, "success")
    assert len(stage.entries("start")) == 3
    assert worker.process.poll() is None


@ON_BOTH_BROKERS
def test_a_question_that_the_broker_keeps_waiting_holds_up_no_message(
    stage: Stage, worker: WorkerProcess, proxy: Proxy
) -> None:
    """A broker that answers slowly: asking how deep many queues are takes long, publishing does not wait for it."""
    assert worker
    stage.broker.depths(["default_pool.default"])
    messages = stage.queue(*stage.insert({"one": ["succeed"], "two": ["succeed"]}).values())
    proxy.forward(delay_s=0.2)
    names = [f"default_pool.q{number}" for number in range(50)]
    asked: list[dict[str, int]] = []
    question = threading.Thread(target=lambda: asked.append(stage.broker.depths(names)))
    question.start()
    stage.broker.publish(messages)
    assert not asked
    for message in messages:
        stage.wait(message.task_instance_id, "success")
    proxy.forward()
    question.join()
    assert asked == [dict.fromkeys(names, 0)]
