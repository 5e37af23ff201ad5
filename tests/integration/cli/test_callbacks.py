"""`turnout callbacks`, and the queue of callbacks among the others."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, text

from tests import rows
from turnout.metadata import callbacks, processes
from turnout.metadata.engine import transact
from turnout.metadata.processes import Registration

Turnout = Callable[..., Any]
LOG = '{"ts": "2026-01-01T00:00:00.000+00:00", "msg": "told", "level": "info", "logger": "", "stream": "stdout"}'


@pytest.fixture
def called(engine: Engine) -> dict[str, int]:
    """Two tasks that have failed, of a DAG that has callbacks for everything."""
    with engine.begin() as connection:
        rows.insert_dags(connection, "called.py")
        ids = rows.insert_run(connection, "called", "run-1", ["one", "retried", "silent"])
        connection.execute(text("ALTER TABLE task_instance DISABLE TRIGGER law"))
        connection.execute(text("UPDATE task_instance SET state = 'failed'"))
    return ids


def claim(engine: Engine, **registration: Any) -> tuple[int, callbacks.ClaimedCallback]:
    """Claim the first callback as a worker."""
    worker = Registration("worker", "crane", 3600, queues=["default"], slots=2, runs_callbacks=True, **registration)
    worker_id = transact(engine, lambda c: processes.register(c, worker))
    claimed = transact(engine, lambda c: callbacks.claim_next(c, worker_id, 3))
    assert claimed is not None
    return worker_id, claimed


@pytest.mark.usefixtures("called")
def test_callbacks_are_listed_the_last_first_with_how_they_went(turnout: Turnout, engine: Engine) -> None:
    worker_id, claimed = claim(engine)
    transact(engine, lambda c: callbacks.finish(c, worker_id, claimed, problem="no such channel", log=LOG))
    last, first = turnout("callbacks", "list", "called", "-o", "json").json
    assert (first["task_id"], first["event"], first["state"], first["tries"]) == ("one", "failure", "failed", 1)
    assert (first["worker"], first["error"]) == ("crane", "no such channel")
    assert first["end_date"] is not None
    assert (last["task_id"], last["state"], last["worker"]) == ("retried", "waiting", None)
    assert [row["id"] for row in turnout("callbacks", "list", "--state", "failed", "-o", "json").json] == [first["id"]]
    assert turnout("callbacks", "list", "other", "-o", "json").json == []
    assert turnout("callbacks", "logs", str(first["id"])).out == "INFO    told\n"
    assert turnout("callbacks", "logs", str(last["id"])).err == "It has said nothing so far.\n"


def test_a_callback_that_is_not_there_is_one_clear_line(turnout: Turnout) -> None:
    refused = turnout("callbacks", "logs", "99")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "Error: There is no callback 99: `turnout callbacks list` shows which there are.\n"


@pytest.mark.usefixtures("called")
def test_that_no_worker_runs_callbacks_is_said_when_some_wait(turnout: Turnout, engine: Engine) -> None:
    remark = "No live worker runs callbacks: start one without --no-callbacks.\n"
    assert turnout("callbacks", "list").err == remark
    claim(engine)
    assert turnout("callbacks", "list").err == ""


@pytest.mark.usefixtures("called")
def test_the_queue_of_callbacks_is_listed_while_it_holds_some(turnout: Turnout, engine: Engine) -> None:
    def listed() -> dict[str, Any]:
        found = turnout("queues", "list", "-o", "json").json
        return next((row for row in found if row["celery_queue"] == "callbacks"), {})

    row = listed()
    assert (row["waiting"], row["running"], row["live_workers"], row["pool"]) == (2, 0, 0, None)
    worker_id, claimed = claim(engine)
    row = listed()
    assert (row["waiting"], row["running"], row["live_workers"], row["is_paused"]) == (1, 1, 1, False)
    turnout("queues", "pause", "callbacks")
    assert listed()["is_paused"]
    turnout("queues", "unpause", "callbacks")
    with engine.begin() as connection:
        connection.execute(text("UPDATE callback SET state = 'success'"))
    assert listed() == {}
    assert not transact(engine, lambda c: callbacks.finish(c, worker_id, claimed, problem=None, log=""))


def test_a_worker_serves_either_the_queue_of_callbacks_or_none(turnout: Turnout) -> None:
    refused = turnout("worker", "-q", "callbacks", "--no-callbacks")
    assert refused.code == 2
    assert "give either -q callbacks or --no-callbacks" in refused.err
