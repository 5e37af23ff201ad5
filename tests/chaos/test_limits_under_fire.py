"""Three schedulers, six pools, thousands of tiny tasks, while processes are killed and frozen at random.

The database itself watches every limit; the tasks themselves write down each start.
"""

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine

from tests import limits
from tests.control import Control, graph
from tests.platform import Platform
from turnout.metadata.errors import MetadataError

Eventually = Callable[..., object]
#: `make test-chaos` has many more.
RUNS = int(os.environ.get("TURNOUT_TEST_CHAOS_RUNS", "8"))
SEED = int(os.environ.get("TURNOUT_TEST_CHAOS_SEED", "7"))
TASKS = 60  # of a run
SIZES = {"p0": 2, "p1": 3, "p2": 1, "p3": 3, "p4": 2, "p5": 3}
PARALLELISM = 7  # of the eight slots of the workers
SCHEDULERS = ("scheduler-1", "scheduler-2", "scheduler-3")
WORKERS = ("worker-1", "worker-2")
#: A worker may be lost more often than a task would be forgiven by default.
PATIENT = {
    "TURNOUT_SCHEDULER__MAX_INFRA_RETRIES": "100",
    "TURNOUT_SCHEDULER__PARALLELISM": str(PARALLELISM),
    "TURNOUT_SCHEDULER__SWEEP_INTERVAL_S": "3600",
}


class Gunman(threading.Thread):
    """Kills, and freezes for a while, one process after the other, until it is told to stop."""

    def __init__(self, platform: Platform) -> None:
        super().__init__(name="gunman", daemon=True)
        self._platform = platform
        self._random = random.Random(SEED)  # noqa: S311  the same shots each time
        self._over = threading.Event()
        self.shots: Counter[str] = Counter()

    def run(self) -> None:
        while not self._over.wait(self._random.uniform(0.2, 1.0)):
            victim = self._random.choice([*SCHEDULERS * 3, *WORKERS])
            if self._random.random() < 0.4:
                self.shots["kill"] += 1
                self._platform.kill(victim)
                start(self._platform, victim)
            else:
                self.shots["freeze"] += 1
                self._platform.kill(victim, signal.SIGSTOP)
                self._over.wait(self._random.uniform(0.1, 4.0))
                self._platform.kill(victim, signal.SIGCONT)

    def stop(self) -> None:
        self._over.set()
        self.join()


@contextmanager
def fire(platform: Platform) -> Iterator[Gunman]:
    gunman = Gunman(platform)
    gunman.start()
    try:
        yield gunman
    finally:
        gunman.stop()


def start(platform: Platform, name: str) -> None:
    if name in SCHEDULERS:
        platform.start("scheduler", name, **PATIENT)
    else:
        platform.start("worker", name, "-c", "4")


@pytest.mark.timeout(120 + 30 * RUNS)
def test_no_limit_is_exceeded_no_task_lost_and_no_attempt_started_twice(
    platform: Platform, eventually: Eventually
) -> None:
    with platform.engine.begin() as connection:
        limits.watch(connection, PARALLELISM)
    platform.declare("tiny.py", **SIZES)
    for name in (*SCHEDULERS, *WORKERS):
        start(platform, name)
    runs = [platform.trigger("tiny") for _ in range(RUNS)]
    with fire(platform) as gunman:
        eventually(lambda: unfinished(platform) == 0, timeout_s=30 * RUNS)
    assert min(gunman.shots.values()) > 0

    assert {platform.run_state(run) for run in runs} == {"success"}
    assert platform.rows("SELECT DISTINCT state FROM task_instance") == [{"state": "success"}]
    starts = Counter(entry["attempt_id"] for entry in platform.ledger("start"))
    assert set(starts.values()) == {1}, "an attempt was started twice"
    assert len({(entry["run_id"], entry["task_id"]) for entry in platform.ledger("end")}) == RUNS * TASKS
    for name in (*SCHEDULERS, *WORKERS):
        assert not [said for said in platform.said(name, "outage.began") if "limit exceeded" in str(said)]
        assert not platform.said(name, "loop.failed")
    reached = {row["name"] for row in platform.rows("SELECT name FROM limit_seen WHERE used = most")}
    assert reached >= {"parallelism", "runs of tiny", "pool p0", "pool p2"}, "a limit that nobody reaches is not tested"


def unfinished(platform: Platform) -> int:
    return int(platform.scalar("SELECT count(*) FROM dag_run WHERE state IN ('queued', 'running')"))


def test_the_database_refuses_what_exceeds_a_limit(engine: Engine) -> None:
    control = Control(engine)
    control.do(lambda c: limits.watch(c, 2))
    control.prepare(graph("d", {"a": [], "b": [], "c": []}, max_active_tasks=3))
    control.worker()
    queue = "UPDATE task_instance SET state = 'queued', attempt_id = gen_random_uuid() WHERE task_id = :task"
    for task in "ab":
        control.sql(queue, task=task)
    with pytest.raises(MetadataError, match="limit exceeded: parallelism: 3 of 2"):
        control.sql(queue, task="c")
