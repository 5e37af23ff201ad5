"""Runs that end before their tasks do: `fail_fast`, `dagrun_timeout`; and DAGs that fail too often."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from tests.control import Control, graph
from turnout.metadata.states import TaskState
from turnout.metadata.timers import seconds_until_next_due
from turnout.scheduler.decide import decide
from turnout.tasks import DAG

FAILED, SUCCESS = TaskState.FAILED, TaskState.SUCCESS
WIDE = {"bad": [], "after": ["bad"], "runs": [], "waits": [], "queued": [], "retried": [], "blocked": ["runs"]}


def endings(control: Control, run: int) -> dict[str, tuple[Any, ...]]:
    found = control.sql("SELECT task_id, state, outcome, cause FROM task_instance WHERE dag_run_id = :run", run=run)
    return {task: tuple(rest) for task, *rest in found}


def mixed(control: Control, dag: DAG) -> tuple[int, int, dict[str, Any]]:
    """Begin a run of WIDE in which one task runs, one is queued, one waits for its retry; return what was claimed."""
    run, worker = control.prepare(dag), control.worker()
    messages = {message.task_id: message for message in control.queue().messages}
    claimed = {one.task_id: one for one in control.claim([m for n, m in messages.items() if n != "queued"], worker)}
    control.finish([claimed["retried"].key], TaskState.UP_FOR_RETRY, retry_delay_s=3600)
    control.sql("UPDATE task_instance SET state = 'scheduled' WHERE task_id = 'waits'")
    return run, worker, claimed


def test_the_first_failure_ends_all_that_runs_or_waits(control: Control) -> None:
    run, _, claimed = mixed(control, graph("d", WIDE, fail_fast=True))
    control.finish([claimed["bad"].key], FAILED)
    control.decide()
    assert endings(control, run) == {
        "bad": ("failed", "failed", None),
        "after": ("upstream_failed", None, None),
        "runs": ("failed", "cancelled", "fail_fast"),
        "waits": ("skipped", None, "fail_fast"),
        "queued": ("skipped", "cancelled", "fail_fast"),
        "retried": ("skipped", "failed", "fail_fast"),
        "blocked": ("skipped", None, "fail_fast"),
    }
    assert control.run_state(run) == "failed"
    assert control.finish([claimed["runs"].key]) == []


def test_the_failure_of_a_task_that_nothing_follows_ends_the_run_too(control: Control) -> None:
    run, worker = control.prepare(graph("d", {"bad": [], "other": []}, fail_fast=True)), control.worker()
    control.work([message for message in control.queue().messages if message.task_id == "bad"], worker, bad=FAILED)
    control.decide()
    assert control.states(run) == {"bad": "failed", "other": "skipped"}
    assert control.run_state(run) == "failed"


def test_a_retry_is_no_failure_yet_and_without_the_argument_nothing_is_ended(control: Control) -> None:
    run, _, claimed = mixed(control, graph("d", WIDE, fail_fast=True))
    control.decide()
    assert endings(control, run)["runs"][0] == "running"
    other, _, claimed = mixed(control, graph("other", WIDE))
    control.finish([claimed["bad"].key], FAILED)
    control.decide()
    assert endings(control, other)["runs"][0] == "running"
    assert control.run_state(run) == control.run_state(other) == "running"


def test_what_has_ended_keeps_its_end(control: Control) -> None:
    run, _, claimed = mixed(control, graph("d", WIDE, fail_fast=True))
    control.finish([claimed["runs"].key])
    control.finish([claimed["bad"].key], FAILED)
    control.decide()
    assert endings(control, run)["runs"] == ("success", "success", None)


def test_teardowns_still_run_after_the_first_failure(control: Control) -> None:
    dag = graph("d", {"up": [], "bad": ["up"], "long": ["up"], "down": ["bad", "long"]}, fail_fast=True)
    dag.get_task("down").as_teardown(setups=dag.get_task("up"))
    dag.validate()
    run, worker = control.prepare(dag), control.worker()
    control.work(control.queue().messages, worker)
    control.decide()
    claimed = {one.task_id: one for one in control.claim(control.queue().messages, worker)}
    control.finish([claimed["bad"].key], FAILED)
    control.decide()
    assert control.states(run) == {"up": "success", "bad": "failed", "long": "failed", "down": "scheduled"}
    assert control.run_state(run) == "running"
    control.work(control.queue().messages, worker)
    control.decide()
    assert (control.states(run)["down"], control.run_state(run)) == ("success", "failed")


def test_a_failed_teardown_ends_nothing(control: Control) -> None:
    dag = graph("d", {"up": [], "down": [], "other": []}, fail_fast=True)
    dag.get_task("down").as_teardown(setups=dag.get_task("up"))
    run, worker = control.prepare(dag), control.worker()
    messages = {message.task_id: message for message in control.queue().messages}
    (other,) = control.claim([messages["other"]], worker)
    control.work([messages["up"]], worker)
    control.decide()
    control.work(control.queue().messages, worker, down=FAILED)
    control.decide()
    assert control.states(run) == {"up": "success", "down": "failed", "other": "running"}
    control.finish([other.key])
    control.decide()
    assert control.run_state(run) == "success"


def time_is_up(control: Control, run: int) -> None:
    control.sql("UPDATE dag_run SET timeout_at = now() - interval '1 s' WHERE id = :run", run=run)


def test_a_run_that_takes_too_long_fails_and_the_rest_of_it_is_skipped(control: Control) -> None:
    run, _, claimed = mixed(control, graph("d", WIDE, dagrun_timeout=timedelta(hours=1)))
    control.finish([claimed["bad"].key])
    assert control.decide().finished == 0
    time_is_up(control, run)
    assert control.decide().finished == 1
    assert control.run_state(run) == "failed"
    assert endings(control, run) == {
        "bad": ("success", "success", None),
        "after": ("skipped", None, "run_timeout"),
        "runs": ("skipped", "cancelled", "run_timeout"),
        "waits": ("skipped", None, "run_timeout"),
        "queued": ("skipped", "cancelled", "run_timeout"),
        "retried": ("skipped", "failed", "run_timeout"),
        "blocked": ("skipped", None, "run_timeout"),
    }
    assert control.finish([claimed["runs"].key]) == []
    assert control.decide().finished == 0


def test_the_time_runs_from_the_start_and_the_loop_wakes_up_for_it(control: Control) -> None:
    control.prepare(graph("d", {"a": []}, dagrun_timeout=timedelta(hours=1)))
    assert control.sql("SELECT timeout_at - started_at FROM dag_run") == [timedelta(hours=1)]
    assert control.do(seconds_until_next_due) == pytest.approx(3600, abs=60)
    control.sql("UPDATE dag_run SET timeout_at = now() - interval '1 s'")
    assert control.do(seconds_until_next_due) is None


def test_a_run_without_the_argument_has_all_the_time(control: Control) -> None:
    control.prepare(graph("d", {"a": []}))
    assert control.sql("SELECT timeout_at FROM dag_run") == [None]


def test_the_next_run_goes_on_when_the_one_before_has_timed_out(control: Control) -> None:
    dag = graph("d", {"a": []}, task={"depends_on_past": True}, dagrun_timeout=timedelta(hours=1))
    control.declare(dag)
    first, second = (control.insert_run("d", f"r{day}", logical_date=f"2013-01-0{day}") for day in (1, 2))
    control.start()
    control.decide()
    time_is_up(control, first)
    control.decide()
    control.decide()
    assert (control.states(first), control.states(second)) == ({"a": "skipped"}, {"a": "scheduled"})


def end_runs(control: Control, *states: TaskState, first: int = 1) -> None:
    worker = control.worker()
    for day, state in enumerate(states, first):
        control.insert_run("d", f"r{day}", logical_date=f"2013-01-{day:02}")
        control.start()
        control.decide()
        control.work(control.queue().messages, worker, a=state)
        control.decide()


def test_a_dag_is_paused_when_its_last_runs_have_all_failed(control: Control) -> None:
    control.declare(graph("d", {"a": []}, max_consecutive_failed_dag_runs=3), graph("other", {"a": []}))
    end_runs(control, FAILED, FAILED, SUCCESS, FAILED, FAILED)
    assert control.sql("SELECT is_paused FROM dag WHERE dag_id = 'd'") == [False]
    end_runs(control, FAILED, first=6)
    assert control.sql("SELECT dag_id, is_paused FROM dag ORDER BY 1") == [("d", True), ("other", False)]
    assert control.sql("SELECT actor, action, dag_id, detail FROM audit_log") == [
        ("scheduler", "dag.pause", "d", {"max_consecutive_failed_dag_runs": 3})
    ]


def test_a_dag_that_a_person_has_unpaused_is_paused_by_the_next_failure(control: Control) -> None:
    control.declare(graph("d", {"a": []}, max_consecutive_failed_dag_runs=1))
    end_runs(control, FAILED)
    control.sql("UPDATE dag SET is_paused = false")
    end_runs(control, SUCCESS, first=2)
    assert control.sql("SELECT is_paused FROM dag") == [False]
    end_runs(control, FAILED, first=3)
    assert control.sql("SELECT is_paused FROM dag") == [True]


def test_runs_that_time_out_count_as_failed_ones(control: Control) -> None:
    dag = graph("d", {"a": []}, max_consecutive_failed_dag_runs=1, dagrun_timeout=timedelta(hours=1))
    control.declare(dag)
    run = control.insert_run("d", logical_date="2013-01-01")
    control.start()
    time_is_up(control, run)
    control.decide()
    assert control.sql("SELECT is_paused FROM dag") == [True]


def test_of_two_schedulers_that_end_failed_runs_at_the_same_time_one_sees_both(control: Control) -> None:
    control.declare(graph("d", {"a": []}, max_consecutive_failed_dag_runs=2))
    runs = [control.insert_run("d", f"r{day}", logical_date=f"2013-01-0{day}") for day in (1, 2)]
    control.start()
    control.decide()
    worker = control.worker()
    first, second = control.queue().messages
    control.work([first], worker, a=FAILED)
    with control.engine.connect() as connection, connection.begin():
        decide(connection, control.versions, 500)
        control.work([second], worker, a=FAILED)
        with control.engine.connect() as other, other.begin():
            other.execute(text("SET LOCAL lock_timeout = '100ms'"))
            with pytest.raises(Exception, match="lock timeout"):
                decide(other, control.versions, 500)
    control.decide()
    assert [control.run_state(run) for run in runs] == ["failed", "failed"]
    assert control.sql("SELECT is_paused FROM dag") == [True]
