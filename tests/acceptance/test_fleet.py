"""Two schedulers and two workers on 200 tasks over three queues and two pools."""

from collections import Counter
from collections.abc import Callable

from tests.platform import Platform

TASKS = 200


def test_every_attempt_runs_once_and_no_pool_is_ever_over_its_slots(
    platform: Platform, eventually: Callable[..., object]
) -> None:
    platform.declare("fleet.py", small=3, default_pool=5)
    for number in (1, 2):
        platform.start("scheduler", f"scheduler-{number}")
    platform.start("worker", "worker-1", "-q", "default,io", "-c", "4")
    platform.start("worker", "worker-2", "-q", "gpu,io", "-c", "4")
    run_id = platform.trigger("fleet")

    eventually(lambda: platform.run_state(run_id) == "success", timeout_s=120)

    assert platform.states(run_id) == Counter(success=TASKS + 5)
    started = Counter(entry["attempt_id"] for entry in platform.ledger("start"))
    assert set(started.values()) == {1}
    assert len(started) == TASKS
    assert started == Counter(entry["attempt_id"] for entry in platform.ledger("end"))
    assert platform.most_slots_used("small") <= 3
    assert platform.most_slots_used("default_pool") <= 5
    assert platform.scalar("SELECT count(*) FROM task_attempt") == 0
    assert platform.scalar("SELECT count(*) FROM wakeup") == 0
    workers = platform.rows("""
        SELECT DISTINCT p.name, t.queue FROM task_instance t JOIN process p ON p.id = t.worker_id
        WHERE t.queue IN ('default', 'gpu')
    """)
    assert {(row["name"], row["queue"]) for row in workers} == {("worker-1", "default"), ("worker-2", "gpu")}
