"""Processes that die or freeze in the middle of a run."""

import signal
from collections import Counter
from collections.abc import Callable

import pytest

from tests.platform import Platform

Eventually = Callable[..., object]


@pytest.fixture
def fleet(platform: Platform) -> Platform:
    platform.declare("fleet.py", small=3, default_pool=5)
    for number in (1, 2):
        platform.start("scheduler", f"scheduler-{number}")
        platform.start("worker", f"worker-{number}", "-q", "default,io,gpu", "-c", "3")
    return platform


def wait_for_half(platform: Platform, eventually: Eventually) -> None:
    eventually(lambda: len(platform.ledger("end")) >= 60, timeout_s=90)


def assert_all_well(platform: Platform, run_id: str) -> None:
    assert platform.states(run_id) == Counter(success=205)
    starts = Counter(entry["attempt_id"] for entry in platform.ledger("start"))
    assert set(starts.values()) == {1}, "an attempt id started twice"
    assert platform.most_slots_used("small") <= 3


def test_a_killed_scheduler_is_not_missed(fleet: Platform, eventually: Eventually) -> None:
    run_id = fleet.trigger("fleet")
    wait_for_half(fleet, eventually)
    fleet.kill("scheduler-1")

    eventually(lambda: fleet.run_state(run_id) == "success", timeout_s=90)

    assert_all_well(fleet, run_id)
    ended = Counter(entry["task_id"] for entry in fleet.ledger("end"))
    assert set(ended.values()) == {1}, "a task ran twice though no worker was lost"
    eventually(lambda: fleet.scalar("SELECT state FROM process WHERE name = 'scheduler-1'") == "dead")


def test_a_frozen_scheduler_finds_its_lease_gone_and_begins_anew(fleet: Platform, eventually: Eventually) -> None:
    run_id = fleet.trigger("fleet")
    wait_for_half(fleet, eventually)
    fleet.kill("scheduler-1", signal.SIGSTOP)
    eventually(lambda: fleet.run_state(run_id) == "success", timeout_s=90)
    eventually(lambda: fleet.scalar("SELECT state FROM process WHERE name = 'scheduler-1'") == "dead")
    fleet.kill("scheduler-1", signal.SIGCONT)

    eventually(lambda: fleet.said("scheduler-1", "lease.lost"))
    eventually(lambda: fleet.scalar("SELECT count(*) FROM process WHERE name = 'scheduler-1' AND state = 'alive'") == 1)
    fleet.kill("scheduler-2")
    second = fleet.trigger("fleet")
    eventually(lambda: fleet.run_state(second) == "success", timeout_s=90)
    assert_all_well(fleet, run_id)


def test_attempts_of_a_killed_worker_run_again_elsewhere(fleet: Platform, eventually: Eventually) -> None:
    gate = fleet.folder / "gate"
    run_id = fleet.trigger("fleet", {"t0_0": [f"wait_for:{gate}"], "t0_2": [f"wait_for:{gate}"]})
    held = {"t0_0", "t0_2"}
    eventually(lambda: held <= {entry["task_id"] for entry in fleet.ledger("start")})
    victims = fleet.rows("""
        SELECT DISTINCT p.name FROM task_instance t JOIN process p ON p.id = t.worker_id
        WHERE t.task_id = 't0_0' AND t.state = 'running'
    """)
    fleet.kill(victims[0]["name"])
    gate.touch()

    eventually(lambda: fleet.run_state(run_id) == "success", timeout_s=90)

    assert_all_well(fleet, run_id)
    lost = fleet.rows("""
        SELECT a.outcome, a.cause, a.error, t.try_number, t.infra_failures, t.max_tries
        FROM task_attempt a JOIN task_instance t ON t.id = a.task_instance_id WHERE t.task_id = 't0_0'
    """)
    assert [(row["outcome"], row["cause"]) for row in lost] == [("lost", "worker_lost")]
    assert lost[0]["try_number"] - lost[0]["infra_failures"] == 1, "the user's retries were touched"


def test_a_task_that_loses_worker_after_worker_fails_with_the_cause(platform: Platform, eventually: Eventually) -> None:
    platform.declare("scripted.py", small=1)
    platform.start("scheduler", "scheduler-1", TURNOUT_SCHEDULER__MAX_INFRA_RETRIES="1")
    run_id = platform.trigger("scripted", {"one": ["hang"]})
    for number in (1, 2):
        platform.start("worker", f"worker-{number}", "-q", "default", "-c", "1")
        eventually(lambda number=number: len([e for e in platform.ledger() if e["task_id"] == "one"]) == number)
        platform.kill(f"worker-{number}")

    eventually(lambda: platform.states(run_id)["upstream_failed"] == 1)
    task = platform.rows("SELECT state, outcome, cause, infra_failures FROM task_instance WHERE task_id = 'one'")[0]
    assert task == {"state": "failed", "outcome": "lost", "cause": "worker_lost", "infra_failures": 2}
