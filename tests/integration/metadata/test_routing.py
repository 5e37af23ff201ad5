"""Drained workers and paused queues: nothing new goes there until a person says otherwise."""

import pytest

from tests.control import Control, graph
from turnout.metadata import processes, queueing
from turnout.metadata.errors import NotFoundError
from turnout.metadata.listings.processes import list_workers
from turnout.metadata.listings.queues import list_queues
from turnout.metadata.processes import WorkerLoad
from turnout.metadata.routing import set_drained, set_queue_paused


def drain(control: Control, name: str = "w", *, drained: bool = True) -> bool:
    return control.do(lambda c: set_drained(c, name, drained=drained, actor="ada"))


def pause(control: Control, queue: str = "default", *, paused: bool = True) -> bool:
    return control.do(lambda c: set_queue_paused(c, queue, paused=paused, actor="ada"))


def queued(control: Control) -> list[str]:
    return [message.task_id for message in control.queue().messages]


def test_nothing_is_queued_for_a_drained_worker_until_it_is_undrained(control: Control) -> None:
    control.worker()
    control.prepare(graph("d", {"a": []}))
    assert drain(control)
    assert not drain(control)
    assert queued(control) == []
    (worker,) = control.do(lambda c: list_workers(c, 9)).rows
    assert (worker.state, worker.closed_for) == ("alive", "drained by ada")
    control.kill(worker.id)
    control.worker()  # one that takes its place under the same name
    assert queued(control) == []
    assert drain(control, drained=False)
    assert not drain(control, drained=False)
    assert queued(control) == ["a"]
    assert control.sql("SELECT action, actor, detail FROM audit_log ORDER BY id") == [
        ("worker.drain", "ada", {"worker": "w"}),
        ("worker.undrain", "ada", {"worker": "w"}),
    ]


@pytest.mark.parametrize("drained", [True, False])
def test_a_worker_that_nobody_has_seen_is_not_found(control: Control, drained: bool) -> None:
    control.worker()
    with pytest.raises(NotFoundError, match="There is no worker v"):
        drain(control, "v", drained=drained)
    assert control.sql("SELECT * FROM drained_worker") == []


def test_nothing_of_a_paused_queue_is_queued_and_the_others_go_on(control: Control) -> None:
    control.worker(queues=["default", "gpu"])
    control.prepare(graph("d", {"a": []}))
    control.prepare(graph("g", {"b": []}, task={"queue": "gpu"}))
    assert pause(control)
    assert not pause(control)
    assert queued(control) == ["b"]
    rows = control.do(list_queues)
    assert {row.queue: (row.is_paused, row.waiting) for row in rows} == {"default": (True, 1), "gpu": (False, 0)}
    assert pause(control, paused=False)
    assert queued(control) == ["a"]


def test_a_worker_above_its_limit_gets_nothing(control: Control) -> None:
    worker = control.worker()
    control.prepare(graph("d", {"a": []}))
    heavy = WorkerLoad(0.0, 9.0, 100, "load 9, max_load 8")
    control.do(lambda c: processes.renew(c, worker, 60, heavy))
    assert control.do(queueing.live_workers) == []
    assert queued(control) == []
    control.do(lambda c: processes.renew(c, worker, 60, WorkerLoad(0.0, 7.0, 100)))
    assert queued(control) == ["a"]


def test_the_oldest_wait_of_a_queue_is_told(control: Control) -> None:
    control.prepare(graph("d", {"a": [], "b": []}))
    control.sql("UPDATE task_instance SET scheduled_at = now() - interval '60 s' WHERE task_id = 'b'")
    (row,) = control.do(list_queues)
    assert row.oldest_wait is not None
    assert 60 <= row.oldest_wait < 600
