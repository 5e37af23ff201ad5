"""SIGTERM for a worker whose slots are all taken and that holds as many messages again."""

import signal
import time
from collections.abc import Callable

from tests.integration.executor.conftest import ON_BOTH_BROKERS, Stage, WorkerProcess, eventually
from tests.platform import Platform

StartWorker = Callable[..., WorkerProcess]
#: A worker that keeps what it has been sent, instead of giving it back as soon as its slots are taken: RabbitMQ sends
#: it as many messages again as it has slots.
_HOARDING = "import turnout.executor.hand_off as hand_off; hand_off.FULL_AFTER_S = 3600\n"
_SLOTS = 4
_PROMISE_S = 10


@ON_BOTH_BROKERS
def test_sigterm_lets_four_finish_and_the_four_reserved_run_elsewhere_within_ten_seconds(
    stage: Stage, start_worker: StartWorker, platform: Platform
) -> None:
    gate = stage.settings.home / "gate"
    leaving = start_worker("-c", str(_SLOTS), "-n", "leaving", prelude=_HOARDING)
    running = [ti for _ in range(2) for ti in _publish(stage, f"wait_for:{gate}")]
    stage.wait_for_start(_SLOTS)
    reserved = [ti for _ in range(2) for ti in _publish(stage, "succeed")]
    if stage.settings.broker.get_secret_value().startswith("amqp"):
        eventually(lambda: stage.broker.depths(["default_pool.default"]) == {"default_pool.default": 0})
    else:  # on Redis and Valkey, a worker takes no message for which it has no slot
        assert stage.broker.depths(["default_pool.default"]) == {"default_pool.default": _SLOTS}

    # Patient enough to take nothing for lost meanwhile: what is given back is given back by the worker.
    platform.start("scheduler", "scheduler-1", TURNOUT_SCHEDULER__MESSAGE_PATIENCE_S="60")
    eventually(lambda: platform.scalar("SELECT count(*) FROM process WHERE name = 'scheduler-1'"))
    start_worker("-c", str(_SLOTS), "-n", "staying")
    leaving.send(signal.SIGTERM)
    sent_at = time.monotonic()
    for task_instance_id in reserved:
        assert stage.wait(task_instance_id, "success").try_number == 1
    assert time.monotonic() - sent_at < _PROMISE_S

    assert {stage.task(task_instance_id).state for task_instance_id in running} == {"running"}
    gate.touch()
    assert leaving.wait() == 0
    assert {stage.task(task_instance_id).state for task_instance_id in running} == {"success"}
    assert len({entry["attempt_id"] for entry in stage.entries("start")}) == len(stage.entries("start")) == 2 * _SLOTS
    ran = platform.rows("""
        SELECT p.name, count(*), sum(t.infra_failures) AS lost
        FROM task_instance t JOIN process p ON p.id = t.worker_id GROUP BY p.name ORDER BY p.name
    """)
    assert ran == [{"name": name, "count": _SLOTS, "lost": 0} for name in ("leaving", "staying")]


def _publish(stage: Stage, action: str) -> list[int]:
    return list(stage.publish({"one": [action], "two": [action]}).values())
