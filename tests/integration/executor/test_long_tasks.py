"""Tasks that take longer than brokers are patient: each runs once, and nobody's message waits behind them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.executor.conftest import ON_BOTH_BROKERS, Stage, WorkerProcess, eventually
from tests.rabbitmq import OwnNode

StartWorker = Callable[..., WorkerProcess]
PATIENCE_S = 5
LONG_S = 30
#: A worker on a broker that brings back after five seconds what was not acknowledged, as kombu does it for Redis.
_IMPATIENT = f"""
import turnout.executor.app as app
options = app._redis_options
app._redis_options = lambda: {{**options(), "ack_emulation": True, "visibility_timeout": {PATIENCE_S}}}
"""


@ON_BOTH_BROKERS
def test_a_busy_worker_keeps_no_message_that_a_free_one_could_start(stage: Stage, start_worker: StartWorker) -> None:
    busy = start_worker("-c", "1")
    gate = stage.settings.home / "gate"
    first = stage.publish({"one": [f"wait_for:{gate}"]})["one"]
    stage.wait_for_start()
    second = stage.publish({"one": ["succeed"]})["one"]
    eventually(lambda: stage.broker.depths(["default_pool.default"]) == {"default_pool.default": 1})
    start_worker("-c", "1")
    assert stage.wait(second, "success").try_number == 1
    gate.touch()
    stage.wait(first, "success")
    third = stage.publish({"one": ["succeed"], "retried": ["succeed"]})
    for task_instance in third.values():
        stage.wait(task_instance, "success")
    assert len(stage.entries("start")) == 4
    assert busy.said("attempt.duplicate_dropped") == 0


@ON_BOTH_BROKERS
def test_a_worker_whose_slots_were_taken_takes_messages_again(stage: Stage, start_worker: StartWorker) -> None:
    start_worker("-c", "1")
    gates = {f"run-{number}": stage.settings.home / f"gate-{number}" for number in (1, 2, 3)}
    waiting = [stage.publish({"one": [f"wait_for:{gate}"]})["one"] for gate in gates.values()]
    for left in (2, 1, 0):
        running = stage.wait_for_start(3 - left)[-1]["run_id"]  # a message that was given back is behind the others
        eventually(lambda left=left: sum(stage.broker.depths(["default_pool.default"]).values()) == left)
        gates[running].touch()
    assert {stage.wait(task_instance, "success").try_number for task_instance in waiting} == {1}
    assert len(stage.entries("start")) == 3


def test_a_visibility_timeout_shorter_than_the_task_runs_it_once(stage: Stage, start_worker: StartWorker) -> None:
    worker = start_worker("-c", "1", prelude=_IMPATIENT)
    ids = stage.publish({"one": [f"sleep:{LONG_S}"]})
    stage.wait_for_start()
    late = stage.publish({"retried": ["succeed"]})["retried"]  # its message waits for longer than the time-out
    assert stage.wait(ids["one"], "success", timeout_s=LONG_S + 60).try_number == 1
    assert stage.wait(late, "success").try_number == 1
    assert len(stage.entries("start")) == 2
    assert worker.process.poll() is None


@pytest.fixture
def impatient_rabbitmq(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "rabbitmq"
    folder.mkdir()
    with OwnNode(folder, consumer_timeout_s=PATIENCE_S) as node:
        yield node.url


class TestOnAnImpatientRabbitMQ:
    """On a RabbitMQ that closes the channel of whoever leaves a message unacknowledged for five seconds."""

    @pytest.fixture
    def broker_url(self, impatient_rabbitmq: str) -> str:
        return impatient_rabbitmq

    def test_a_consumer_timeout_shorter_than_the_task_runs_it_once_and_closes_no_channel(
        self, stage: Stage, start_worker: StartWorker, tmp_path: Path
    ) -> None:
        worker = start_worker("-c", "1")
        ids = stage.publish({"one": [f"sleep:{LONG_S}"]})
        stage.wait_for_start()
        late = stage.publish({"retried": ["succeed"]})["retried"]
        assert stage.wait(ids["one"], "success", timeout_s=LONG_S + 60).try_number == 1
        assert stage.wait(late, "success").try_number == 1
        assert len(stage.entries("start")) == 2
        said = worker.log.read_text() + (tmp_path / "rabbitmq" / "out.log").read_text()
        assert "PRECONDITION_FAILED" not in said
        assert worker.said("outage.began") == 0
