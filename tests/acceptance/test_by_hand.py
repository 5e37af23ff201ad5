"""A person clears, marks and cancels by command what really runs: the child is ended, the rest goes as it should."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.platform import Platform

Eventually = Callable[..., object]


@pytest.fixture
def busy(platform: Platform) -> Platform:
    """A scheduler and a worker."""
    platform.declare("pair.py")
    platform.start("scheduler", "scheduler-1")
    platform.start("worker", "worker-1", "-q", "default", "-c", "2")
    return platform


def begin(platform: Platform, eventually: Eventually, **script: list[str]) -> tuple[str, int]:
    """Start a run, and wait until its first task runs; return the run and the process of the task."""
    run_id = platform.trigger("pair", script)
    eventually(lambda: platform.ledger("start"))
    (start,) = platform.ledger("start")
    return run_id, start["pid"]


def by_hand(platform: Platform, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "turnout.cli.main", *arguments, "--yes"],
        env=platform._environ(),
        check=True,
        capture_output=True,
    )


def is_gone(pid: int) -> bool:
    """Tell whether a child has ended."""
    return not Path(f"/proc/{pid}").exists()


def attempts_of(platform: Platform, task_id: str) -> list[tuple[str, str]]:
    found = platform.rows(
        """
        SELECT a.outcome, a.cause FROM task_attempt a JOIN task_instance t ON t.id = a.task_instance_id
        WHERE t.task_id = :task
        UNION ALL SELECT outcome, cause FROM task_instance WHERE task_id = :task AND attempt_id IS NOT NULL
        """,
        task=task_id,
    )
    return [(row["outcome"], row["cause"]) for row in found]


def test_a_task_that_is_cleared_while_it_runs_is_ended_and_runs_again(busy: Platform, eventually: Eventually) -> None:
    run_id, _ = begin(busy, eventually, one=["hang", "succeed"])
    by_hand(busy, "tasks", "clear", "pair", run_id, "-t", "one")

    eventually(lambda: busy.run_state(run_id) == "success")

    assert attempts_of(busy, "one") == [("cancelled", "cleared"), ("success", None)]
    starts = [entry["attempt_id"] for entry in busy.ledger("start") if entry["task_id"] == "one"]
    ends = [entry["attempt_id"] for entry in busy.ledger("end") if entry["task_id"] == "one"]
    assert (len(starts), ends) == (2, starts[1:])
    eventually(lambda: busy.said("worker-1", "attempt.disowned"))
    assert busy.scalar("SELECT max_tries FROM task_instance WHERE task_id = 'one'") == 2


def test_what_waits_for_a_task_that_is_marked_success_while_it_runs_goes_on(
    busy: Platform, eventually: Eventually
) -> None:
    run_id, _ = begin(busy, eventually, one=["hang"])
    by_hand(busy, "tasks", "mark", "pair", run_id, "-t", "one", "--state", "success")

    eventually(lambda: busy.run_state(run_id) == "success")

    assert attempts_of(busy, "one") == [("cancelled", "marked")]
    assert [entry["task_id"] for entry in busy.ledger("end")] == ["two"]
    eventually(lambda: busy.said("worker-1", "attempt.disowned"))


def test_nothing_of_a_cancelled_run_goes_on_and_its_child_is_ended(busy: Platform, eventually: Eventually) -> None:
    run_id, pid = begin(busy, eventually, one=["ignore_sigterm"])
    by_hand(busy, "runs", "cancel", "pair", run_id)
    assert busy.run_state(run_id) == "failed"

    eventually(lambda: is_gone(pid))

    other = busy.trigger("pair")
    eventually(lambda: busy.run_state(other) == "success")
    assert busy.states(run_id) == {"failed": 1, "skipped": 1}
    assert [entry["run_id"] for entry in busy.ledger("start")] == [run_id, other, other]
    eventually(lambda: busy.said("worker-1", "attempt.killed"))
