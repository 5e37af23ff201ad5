"""All steps by several schedulers at the same time, while workers finish: each run ends as it would with one."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from tests import rows
from tests.control import BATCH, Control, graph
from turnout.metadata.engine import transact
from turnout.metadata.states import TaskState
from turnout.metadata.versions import VersionCache
from turnout.scheduler.decide import decide
from turnout.scheduler.queue import queue_ready
from turnout.scheduler.start_runs import start_runs

LAYERS, WIDTH, RUNS = 4, 5, 6


def layers() -> dict[str, list[str]]:
    """Layers of tasks of which each waits for all of the one before, with a joint that has nothing to run between."""
    upstream: dict[str, list[str]] = {}
    above: list[str] = []
    for layer in range(LAYERS):
        names = [f"t{layer}_{number}" for number in range(WIDTH)]
        upstream |= dict.fromkeys(names, above)
        upstream[f"joint{layer}"] = names
        above = [f"joint{layer}"]
    return upstream


@pytest.mark.parametrize("turn", range(2))
def test_schedulers_at_the_same_time_bring_every_run_to_its_right_end(
    control: Control, engine: Engine, turn: int
) -> None:
    joints = [f"joint{layer}" for layer in range(LAYERS)]
    control.declare(*(graph(name, layers(), empty=joints) for name in ("good", "bad")))
    runs = {
        name: [control.insert_run(name, f"{name}{turn}{number}") for number in range(RUNS)] for name in ("good", "bad")
    }
    worker = control.worker(slots=1000)

    def schedule(scheduler_id: int) -> None:
        versions = VersionCache()
        while not over.is_set():
            transact(engine, lambda c: start_runs(c, 2))
            transact(engine, lambda c: decide(c, versions, 3))
            messages = transact(engine, lambda c: queue_ready(c, scheduler_id, BATCH)).messages
            for message in messages:
                fails = message.dag_id == "bad" and message.task_id == "t2_1"
                control.work([message], worker, **({"t2_1": TaskState.FAILED} if fails else {}))
            if not control.sql("SELECT 1 FROM dag_run WHERE state IN ('queued', 'running') LIMIT 1"):
                over.set()

    over = threading.Event()
    with ThreadPoolExecutor(3) as threads:
        futures = [threads.submit(schedule, control.do(rows.insert_scheduler)) for _ in range(3)]
        for future in futures:
            future.result(60)
    assert {control.run_state(run) for run in runs["good"]} == {"success"}
    assert {control.run_state(run) for run in runs["bad"]} == {"failed"}
    assert {state for run in runs["good"] for state in control.states(run).values()} == {"success"}
    for run in runs["bad"]:
        ends = control.states(run)
        assert {name for name, state in ends.items() if state == "failed"} == {"t2_1"}
        assert {name for name, state in ends.items() if state == "upstream_failed"} == {
            "joint2",
            "joint3",
            *(f"t3_{number}" for number in range(WIDTH)),
        }
    assert control.sql("SELECT max(try_number) FROM task_instance") == [1]
