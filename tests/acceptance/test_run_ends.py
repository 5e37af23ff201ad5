"""Runs that end while their tasks still run: the workers stop these."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.platform import Platform

Eventually = Callable[..., object]


@pytest.fixture
def small(platform: Platform) -> Platform:
    platform.declare("fragile.py")
    platform.start("scheduler", "scheduler-1")
    platform.start("worker", "worker-1", "-c", "3")
    return platform


def ends(platform: Platform) -> dict[str, tuple[Any, ...]]:
    found = platform.rows("SELECT task_id, state, outcome, cause FROM task_instance")
    return {row["task_id"]: (row["state"], row["outcome"], row["cause"]) for row in found}


def has_begun(platform: Platform, task_id: str) -> bool:
    return task_id in {entry["task_id"] for entry in platform.ledger()}


def was_stopped(platform: Platform, task_id: str) -> bool:
    return task_id in {entry["task_id"] for entry in platform.ledger("stopped")}


def test_the_first_failure_stops_what_runs_and_the_teardown_cleans_up(small: Platform, eventually: Eventually) -> None:
    gate = small.folder / "gate"
    run_id = small.trigger("fragile", {"bad": [f"wait_and_fail:{gate}"], "long": ["hang_and_tell"]})
    eventually(lambda: has_begun(small, "bad") and has_begun(small, "long"))
    gate.touch()
    eventually(lambda: small.run_state(run_id) == "failed")
    eventually(lambda: was_stopped(small, "long"))
    assert ends(small) == {
        "prepare": ("success", "success", None),
        "bad": ("failed", "failed", "error"),
        "long": ("failed", "cancelled", "fail_fast"),
        "clean_up": ("success", "success", None),
    }


def test_a_run_that_takes_too_long_is_ended_in_time(small: Platform, eventually: Eventually) -> None:
    run_id = small.trigger("hasty", {"long": ["hang_and_tell"]})
    eventually(lambda: has_begun(small, "long"))
    eventually(lambda: small.run_state(run_id) == "failed")
    eventually(lambda: was_stopped(small, "long"))
    assert ends(small) == {"long": ("skipped", "cancelled", "run_timeout")}
