"""Messages: hints only. Duplicates and stale ones are dropped; an attempt that is not current can do nothing."""

from uuid import uuid4

import pytest
from pydantic import SecretStr

from tests.integration.executor.conftest import ON_BOTH_BROKERS, Stage, WorkerProcess
from turnout.config.settings import Settings
from turnout.executor.publisher import CeleryBroker
from turnout.metadata.attempts import AttemptKey, FinishedAttempt, finish_if_running
from turnout.metadata.messages import BrokerUnavailableError
from turnout.metadata.states import Outcome, TaskState


@ON_BOTH_BROKERS
def test_a_duplicate_message_is_dropped_and_counted(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.insert({"one": ["succeed"]})
    messages = stage.queue(ids["one"])
    stage.broker.publish([*messages, *messages])
    stage.broker.publish(messages)
    stage.wait(ids["one"], "success")
    worker.wait_for("attempt.duplicate_dropped", count=2)
    assert len(stage.entries("start")) == 1
    assert stage.broker.depths(["default_pool.default"]) == {"default_pool.default": 0}


@ON_BOTH_BROKERS
def test_a_message_of_an_earlier_attempt_cannot_start_it(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.insert({"one": ["succeed"]})
    stale = stage.queue(ids["one"])
    with stage.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE task_instance SET state = 'scheduled'")
    current = stage.queue(ids["one"])
    stage.broker.publish(stale)
    worker.wait_for("attempt.duplicate_dropped")
    assert stage.task(ids["one"]).state == "queued"
    stage.broker.publish(current)
    stage.wait(ids["one"], "success")
    assert [entry["attempt_id"] for entry in stage.entries("start")] == [str(current[0].attempt_id)]


def test_an_attempt_that_is_not_the_current_one_cannot_finish(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.publish({"one": ["hang"]})
    stage.wait(ids["one"], "running")
    stale = FinishedAttempt(AttemptKey(ids["one"], uuid4()), TaskState.SUCCESS, Outcome.SUCCESS)
    with stage.engine.begin() as connection:
        assert finish_if_running(connection, [stale]) == []
    assert stage.task(ids["one"]).state == "running"
    assert worker.process.poll() is None


def test_an_outcome_that_comes_too_late_is_refused_and_logged(stage: Stage, worker: WorkerProcess) -> None:
    gate = stage.settings.home / "gate"
    ids = stage.publish({"one": [f"wait_for:{gate}"]})
    [start] = stage.wait_for_start()
    with stage.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE task_instance SET state = 'failed'")
    gate.touch()
    # Either the heartbeat stops the attempt first, or its outcome is refused: nothing is written in both cases.
    worker.wait_for("attempt.")
    assert stage.task(ids["one"]).state == "failed"
    assert start["attempt_id"] in worker.log.read_text()


@ON_BOTH_BROKERS
def test_depths_count_what_waits(stage: Stage) -> None:
    messages = stage.queue(*stage.insert({"one": [], "gpu": []}).values())
    stage.broker.publish(messages)
    depths = stage.broker.depths(["default_pool.default", "default_pool.gpu", "default_pool.none"])
    assert depths == {"default_pool.default": 1, "default_pool.gpu": 1, "default_pool.none": 0}


def test_a_broker_that_is_away_is_said_so_in_one_line(settings: Settings) -> None:
    broker = CeleryBroker(settings.model_copy(update={"broker_url": SecretStr("redis://127.0.0.1:1/0")}))
    with pytest.raises(BrokerUnavailableError, match=r"^Cannot use the message broker at redis://127.0.0.1:1/0: .+"):
        broker.depths(["default_pool.default"])
