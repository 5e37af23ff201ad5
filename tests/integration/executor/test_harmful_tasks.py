"""What a task does to its own process, or sends to its worker, harms no other task."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.executor.conftest import Stage, WorkerProcess

StartWorker = Callable[..., WorkerProcess]

FEW_DESCRIPTORS = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 9000)); "


def test_a_process_that_cannot_be_put_in_order_is_replaced_and_its_attempt_counts(
    stage: Stage, start_worker: StartWorker
) -> None:
    worker = start_worker("-c", "1")
    first, second = stage.publish({"one": ["spoil"]}), stage.publish({"two": ["succeed"]})
    assert stage.wait(first["one"], "success", "scheduled").state == "success"
    assert stage.wait(second["two"], "success", "scheduled").state == "success"
    worker.wait_for("attempt.child_fault")
    assert len({entry["pid"] for entry in stage.entries("start")}) == 2


def test_a_task_that_became_less_urgent_does_not_slow_down_the_next(stage: Stage, start_worker: StartWorker) -> None:
    start_worker("-c", "1")
    found = []
    for actions in (["niceness"], ["renice"], ["niceness"]):
        (task_instance_id,) = stage.publish({"one": actions}).values()
        stage.wait(task_instance_id, "success")
        found.append(stage.xcom(task_instance_id))
    assert found[0] == found[2]


def test_a_task_that_closes_the_descriptors_of_its_process_is_told_so_and_writes_nothing_into_strange_files(
    stage: Stage, start_worker: StartWorker, tmp_path: Path
) -> None:
    start_worker("-c", "1")
    first, second = stage.publish({"one": [f"close_descriptors:{tmp_path}"]}), stage.publish({"two": ["succeed"]})
    task = stage.wait(first["one"], "failed", "success", "scheduled", "up_for_retry")
    assert (task.state, task.cause) == ("failed", "child_exited")
    assert str(task.error).startswith("The task closed file descriptors that are not its own")
    assert "".join(path.read_text() for path in tmp_path.glob("file-*")) == ""
    assert any("The task closed file descriptors" in entry.msg for entry in stage.logged("one"))
    assert stage.wait(second["two"], "success", "scheduled").state == "success"


def frame(body: bytes) -> bytes:
    """Write a message to the worker's main process, as it is to arrive."""
    return struct.pack(">I", len(body)) + body


@pytest.mark.parametrize(
    "sent",
    [
        frame(b"[]"),
        frame(b"nonsense"),
        frame(b"[" * 200_000),
        frame(b'{"ask": "xcom"}'),
        b"\xff\xff\xff\xff" + b"x" * 1_000_000,
        b"\x00\x00",
    ],
    ids=["no object", "no JSON", "too deep", "nobody's", "too long", "half a message"],
)
def test_what_a_task_sends_to_its_worker_harms_no_other(stage: Stage, start_worker: StartWorker, sent: bytes) -> None:
    worker = start_worker("-c", "2")
    gate = stage.settings.home / "gate"
    waiting = stage.publish({"one": [f"wait_for:{gate}"]})
    stage.wait(waiting["one"], "running")
    ids = stage.publish({"two": [f"send_to_worker:{sent.hex()}"], "gpu": []})
    if sent == b"\x00\x00":  # nobody answers; the worker forgets it with its end
        stage.wait(ids["two"], "running")
    else:
        assert stage.wait(ids["two"], "success", "scheduled").state == "success"
    gate.touch()
    assert stage.wait(waiting["one"], "success", "scheduled").state == "success"
    assert worker.process.poll() is None


def test_what_cannot_be_asked_for_is_the_askers_own_failure(stage: Stage, start_worker: StartWorker) -> None:
    worker = start_worker("-c", "1")
    ids = stage.publish({"one": ["pull_unaskable"]})
    task = stage.wait(ids["one"], "failed", "scheduled")
    assert (task.state, "cannot contain NUL" in str(task.error)) == ("failed", True), task
    assert worker.process.poll() is None


def test_a_crowd_of_connections_keeps_nobody_from_asking(stage: Stage, start_worker: StartWorker) -> None:
    worker = start_worker(
        "-c", "2", prelude="import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 9000));"
    )
    ids = stage.publish({"one": ["crowd:1000"]})
    assert stage.wait(ids["one"], "success", "scheduled").state == "success"
    ids = stage.publish({"two": ["pull:one"]})
    assert stage.wait(ids["two"], "success", "failed", "scheduled").state == "success"
    assert worker.said("channel.full")
