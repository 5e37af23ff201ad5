"""A fleet whose workers are replaced one after the other while it has hundreds of tasks to do."""

import signal
from collections import Counter

from tests.integration.executor.conftest import ON_BOTH_BROKERS, WAIT_S, eventually
from tests.platform import Platform

WORKERS = ("north", "south")
ROUNDS = 2
#: Each task is short, and long enough for a worker to hold several when its signal comes.
SCRIPT = {"*": ["sleep:0.1"]}


@ON_BOTH_BROKERS
def test_a_rolling_restart_under_load_loses_nothing_and_fails_nothing(platform: Platform) -> None:
    platform.declare("short.py")
    # No message counts as lost for a machine that is slow: what is asked is what a restart does.
    platform.start("scheduler", "scheduler-1", TURNOUT_SCHEDULER__MESSAGE_PATIENCE_S="60")
    for name in WORKERS:
        _start(platform, name)
    runs = []
    for name in WORKERS * ROUNDS:
        runs += [platform.trigger("short", SCRIPT) for _ in range(2)]
        eventually(lambda name=name: _running(platform, name) == 4)
        _replace(platform, name)
    eventually(lambda: {platform.run_state(run) for run in runs} == {"success"}, timeout_s=4 * WAIT_S)

    started = Counter(entry["attempt_id"] for entry in platform.ledger("start"))
    assert set(started.values()) == {1}
    assert started == Counter(entry["attempt_id"] for entry in platform.ledger("end"))
    tasks = platform.rows("SELECT state, outcome, try_number, infra_failures, attempt_id FROM task_instance")
    assert {str(task.pop("attempt_id")) for task in tasks} == set(started)
    assert tasks == len(started) * [{"state": "success", "outcome": "success", "try_number": 1, "infra_failures": 0}]
    earlier = platform.rows("SELECT DISTINCT outcome, cause, started_at FROM task_attempt")
    assert earlier in ([], [{"outcome": "returned", "cause": "worker_stopped", "started_at": None}])
    assert platform.rows("SELECT state, count(*) FROM process WHERE kind = 'worker' GROUP BY state ORDER BY state") == [
        {"state": "alive", "count": len(WORKERS)},
        {"state": "stopped", "count": len(WORKERS) * ROUNDS},
    ]


def _start(platform: Platform, name: str) -> None:
    platform.start("worker", name, "-c", "4", TURNOUT_WORKER__LEASE_S="15")
    alive = "SELECT count(*) FROM process WHERE name = :name AND state = 'alive'"
    eventually(lambda: platform.scalar(alive, name=name) == 1)


def _replace(platform: Platform, name: str) -> None:
    platform.kill(name, signal.SIGTERM)
    assert platform.processes[name].wait(WAIT_S) == 0
    _start(platform, name)


def _running(platform: Platform, name: str) -> int:
    return int(
        platform.scalar(
            """
            SELECT count(*) FROM task_instance t JOIN process p ON p.id = t.worker_id
            WHERE p.name = :name AND p.state = 'alive' AND t.state = 'running'
            """,
            name=name,
        )
    )
