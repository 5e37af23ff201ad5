"""When a scheduler must wake up by itself."""

from typing import Any

import pytest
from sqlalchemy import text

from tests.control import Control, graph
from turnout.metadata.timers import OTHERS_NEWS_S, seconds_until_next_due


def due_in_s(control: Control) -> float | None:
    return control.do(seconds_until_next_due)


def test_nothing_is_due_in_an_empty_database(control: Control) -> None:
    assert due_in_s(control) is None


def test_the_next_run_of_a_timetable_is_a_reason_to_wake_up(control: Control) -> None:
    control.declare(graph("d", {"a": []}))
    control.sql("UPDATE dag SET next_run_after = now() + interval '100 s'")
    assert due_in_s(control) == pytest.approx(100, abs=5)
    control.sql("UPDATE dag SET is_paused = true")
    assert due_in_s(control) is None


def test_a_run_that_waits_for_its_time_is_one_too_and_the_earliest_counts(control: Control) -> None:
    control.declare(graph("d", {"a": []}))
    control.insert_run("d")
    control.sql("UPDATE dag SET next_run_after = now() + interval '100 s'")
    control.sql("UPDATE dag_run SET run_after = now() + interval '50 s'")
    assert due_in_s(control) == pytest.approx(50, abs=5)


def test_a_retry_is_one_too_and_what_is_overdue_is_none(control: Control) -> None:
    worker = control.worker()
    control.prepare(graph("d", {"a": []}, task={"retries": 1}))
    claimed: list[Any] = control.claim(control.queue().messages, worker)
    control.finish([one.key for one in claimed], "up_for_retry", retry_delay_s=20)  # type: ignore[arg-type]
    assert due_in_s(control) == pytest.approx(20, abs=5)
    control.sql("UPDATE task_instance SET next_try_at = now()")
    assert due_in_s(control) is None


def test_news_that_another_scheduler_has_in_hand_are_looked_after_soon(control: Control) -> None:
    control.declare(graph("d", {"a": []}))
    run = control.insert_run("d")
    control.start()
    with control.engine.begin() as other:
        other.execute(text("SELECT 1 FROM dag_run WHERE id = :run FOR NO KEY UPDATE"), {"run": run})
        assert control.decide().runs == 0
        assert due_in_s(control) == pytest.approx(OTHERS_NEWS_S, abs=OTHERS_NEWS_S / 2)
    assert control.decide().runs == 1
    assert due_in_s(control) is None


def test_news_of_a_run_that_was_deleted_are_no_reason(control: Control) -> None:
    control.sql("INSERT INTO wakeup (dag_run_id) VALUES (1)")
    assert due_in_s(control) is None
