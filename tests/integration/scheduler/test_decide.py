"""Step 3, decide, on a real database."""

import pytest
from sqlalchemy import text

from tests.control import Control, graph
from turnout.metadata import wakeups
from turnout.metadata.states import TaskState

LINE = {"a": [], "b": ["a"], "c": ["b"]}
DIAMOND = {"top": [], "left": ["top"], "right": ["top"], "bottom": ["left", "right"]}


def finish(control: Control, worker_id: int, **states: TaskState) -> None:
    """Queue what is scheduled, run it, and decide what follows."""
    control.work(control.queue().messages, worker_id, **states)
    control.decide()


def test_a_line_runs_one_task_after_the_other_and_succeeds(control: Control) -> None:
    run, worker = control.prepare(graph("line", LINE)), control.worker()
    assert control.states(run) == {"a": "scheduled", "b": "none", "c": "none"}
    finish(control, worker)
    assert control.states(run) == {"a": "success", "b": "scheduled", "c": "none"}
    finish(control, worker)
    assert control.run_state(run) == "running"
    finish(control, worker)
    assert control.run_state(run) == "success"


def test_the_bottom_of_a_diamond_waits_for_both_sides(control: Control) -> None:
    run, worker = control.prepare(graph("diamond", DIAMOND)), control.worker()
    finish(control, worker)
    left, right = control.queue().messages
    control.work([left], worker)
    control.decide()
    assert control.states(run)["bottom"] == "none"
    control.work([right], worker)
    control.decide()
    assert control.states(run)["bottom"] == "scheduled"


@pytest.mark.parametrize(
    ("ending", "downstream", "run_ends"),
    [(TaskState.FAILED, "upstream_failed", "failed"), (TaskState.SKIPPED, "skipped", "success")],
)
def test_a_failure_and_a_skip_pass_down_to_the_end_in_one_decision(
    control: Control, ending: TaskState, downstream: str, run_ends: str
) -> None:
    run, worker = control.prepare(graph("line", LINE)), control.worker()
    finish(control, worker, a=ending)
    assert control.states(run) == {"a": ending, "b": downstream, "c": downstream}
    assert control.run_state(run) == run_ends


def test_a_failure_beside_a_skip_is_a_failure_below(control: Control) -> None:
    run, worker = control.prepare(graph("v", {"a": [], "b": [], "c": ["a", "b"]})), control.worker()
    finish(control, worker, a=TaskState.FAILED, b=TaskState.SKIPPED)
    assert control.states(run)["c"] == "upstream_failed"


def test_empty_operators_are_passed_in_the_decision_that_reaches_them(control: Control) -> None:
    chain = {"a": [], "b": ["a"], "c": ["b"], "work": ["c"], "d": ["work"], "e": ["d"]}
    run, worker = control.prepare(graph("chain", chain, empty="abcde")), control.worker()
    assert [name for name, state in control.states(run).items() if state == "success"] == ["a", "b", "c"]
    assert control.states(run)["work"] == "scheduled"
    finish(control, worker)
    assert control.run_state(run) == "success"


def test_a_run_of_empty_operators_and_one_without_tasks_end_by_themselves(control: Control) -> None:
    runs = [control.prepare(graph("empty", LINE, empty="abc")), control.prepare(graph("nothing", {}))]
    assert [control.run_state(run) for run in runs] == ["success", "success"]


def test_only_the_leaves_decide_how_a_run_ends(control: Control) -> None:
    run, worker = control.prepare(graph("y", {"a": [], "b": ["a"], "c": ["a"]})), control.worker()
    finish(control, worker)
    finish(control, worker, b=TaskState.FAILED)
    assert control.states(run) == {"a": "success", "b": "failed", "c": "success"}
    assert control.run_state(run) == "failed"


def test_a_run_does_not_end_while_a_task_waits_for_its_retry(control: Control) -> None:
    run, worker = control.prepare(graph("one", {"a": []}, task={"retries": 1})), control.worker()
    (claimed,) = control.claim(control.queue().messages, worker)
    control.finish([claimed.key], TaskState.UP_FOR_RETRY, retry_delay_s=3600)
    assert control.decide().moved == 0
    assert (control.states(run)["a"], control.run_state(run)) == ("up_for_retry", "running")
    control.sql("UPDATE task_instance SET next_try_at = now()")
    assert control.decide().moved == 1
    assert control.states(run)["a"] == "scheduled"


def test_a_decision_that_lost_its_wake_up_is_caught_by_the_sweep(control: Control) -> None:
    run, worker = control.prepare(graph("line", LINE)), control.worker()
    control.work(control.queue().messages, worker)
    control.sql("DELETE FROM wakeup")
    assert control.decide().runs == 0
    assert control.do(wakeups.leave_for_active_runs) == 1
    assert control.do(wakeups.leave_for_active_runs) == 0
    control.decide()
    assert control.states(run)["b"] == "scheduled"


def test_wake_ups_of_runs_that_are_gone_or_over_are_discarded(control: Control) -> None:
    run = control.prepare(graph("empty", LINE, empty="abc"))
    control.sql("INSERT INTO wakeup (dag_run_id) VALUES (:run), (-1)", run=run)
    assert control.do(wakeups.discard_orphans) == 1
    assert control.decide().moved == 0
    assert control.sql("SELECT count(*) FROM wakeup") == [0]


def test_a_run_that_another_scheduler_decides_for_is_left_to_it(control: Control) -> None:
    runs, worker = [control.prepare(graph(name, LINE)) for name in ("one", "two")], control.worker()
    control.work(control.queue().messages, worker)
    with control.engine.begin() as other:
        other.execute(text("SELECT 1 FROM dag_run WHERE id = :id FOR UPDATE"), {"id": runs[0]})
        control.decide()
        assert [control.states(run)["b"] for run in runs] == ["none", "scheduled"]
    control.decide()
    assert control.states(runs[0])["b"] == "scheduled"


def test_more_news_than_one_decision_takes_is_left_for_the_next(control: Control) -> None:
    runs, worker = [control.prepare(graph(f"d{number}", LINE)) for number in range(3)], control.worker()
    control.work(control.queue().messages, worker)
    assert [control.decide(limit=2).runs, control.decide(limit=2).runs] == [2, 1]
    assert {control.states(run)["b"] for run in runs} == {"scheduled"}
