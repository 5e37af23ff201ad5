"""Trigger rules, setups and teardowns, through the real statements: what runs, and how the run ends."""

from collections.abc import Iterable, Mapping

import pytest

from tests.control import Control, graph
from turnout.metadata.states import TaskState
from turnout.tasks import DAG, TriggerRule

SUCCESS, FAILED, SKIPPED = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED


def ruled(upstream: Mapping[str, Iterable[str]], empty: str = "", **rules: str) -> DAG:
    """Make a DAG some of whose tasks have another rule than `all_success`."""
    dag = graph("d", upstream, empty=empty)
    for name, rule in rules.items():
        dag.get_task(name).trigger_rule = TriggerRule(rule)
    return dag


def cleaned(*, on_failure_fail_dagrun: bool = False) -> DAG:
    """Make `up >> one >> two >> down`, where `up` is a setup and `down` its teardown."""
    dag = graph("d", {"up": [], "one": ["up"], "two": ["one"], "down": ["two"]})
    down, up = dag.get_task("down"), dag.get_task("up")
    down.as_teardown(setups=up, on_failure_fail_dagrun=on_failure_fail_dagrun)
    return dag


def run_all(control: Control, dag: DAG, **endings: TaskState) -> tuple[dict[str, str], str]:
    """Run a DAG to its end; return the states of its tasks and of the run."""
    dag.validate()
    run, worker = control.prepare(dag), control.worker()
    while messages := control.queue().messages:
        control.work(messages, worker, **endings)
        control.decide()
    return control.states(run), control.run_state(run)


def finish(control: Control, worker: int, *tasks: str, **endings: TaskState) -> None:
    """Run some of what is queued or scheduled, and decide what follows."""
    control.work([message for message in control.queue().messages if message.task_id in tasks], worker, **endings)
    control.decide()


@pytest.mark.parametrize(
    ("rule", "ending", "then"),
    [
        ("one_success", SUCCESS, "scheduled"),
        ("one_failed", FAILED, "scheduled"),
        ("one_done", FAILED, "scheduled"),
        ("all_failed", SUCCESS, "skipped"),
        ("all_skipped", FAILED, "skipped"),
        ("none_skipped", SKIPPED, "skipped"),
        ("none_failed", FAILED, "upstream_failed"),
        ("none_failed_min_one_success", FAILED, "upstream_failed"),
        ("all_success", SKIPPED, "none"),
        ("all_done", FAILED, "none"),
        ("one_success", FAILED, "none"),
    ],
)
def test_what_is_certain_is_decided_while_the_rest_still_runs(
    control: Control, rule: str, ending: TaskState, then: str
) -> None:
    run, worker = control.prepare(ruled({"a": [], "b": [], "c": ["a", "b"]}, c=rule)), control.worker()
    finish(control, worker, "a", a=ending)
    assert control.states(run)["c"] == then


def test_a_task_that_always_runs_does_not_wait(control: Control) -> None:
    run = control.prepare(ruled({"a": [], "b": ["a"]}, b="always"))
    assert control.states(run) == {"a": "scheduled", "b": "scheduled"}


def test_a_handler_of_failures_runs_and_the_run_ends_as_its_leaves_do(control: Control) -> None:
    handled = ruled({"a": [], "work": ["a"], "on_failure": ["a"]}, on_failure="one_failed")
    states, state = run_all(control, handled, a=FAILED)
    assert states == {"a": "failed", "work": "upstream_failed", "on_failure": "success"}
    assert state == "failed"


def test_a_join_after_all_have_ended_hides_the_failure_before_it(control: Control) -> None:
    assert run_all(control, ruled({"a": [], "b": ["a"]}, b="all_done"), a=FAILED) == (
        {"a": "failed", "b": "success"},
        "success",
    )


def test_a_task_with_several_instances_counts_with_every_one(control: Control) -> None:
    run, worker = control.prepare(ruled({"a": [], "b": ["a"]}, b="one_failed")), control.worker()
    control.sql("""
        INSERT INTO task_instance (dag_run_id, dag_id, task_id, map_index, pool, pool_slots, queue, priority_weight,
                                   run_date, state)
        SELECT dag_run_id, dag_id, task_id, 0, pool, pool_slots, queue, priority_weight, run_date, 'failed'
        FROM task_instance WHERE task_id = 'a'
    """)
    finish(control, worker, "a")
    assert control.sql("SELECT state FROM task_instance WHERE task_id = 'b'") == ["scheduled"]
    assert control.run_state(run) == "running"


@pytest.mark.parametrize("ending", [SUCCESS, FAILED, SKIPPED])
def test_a_teardown_runs_after_the_work_however_that_ended(control: Control, ending: TaskState) -> None:
    states, state = run_all(control, cleaned(), one=ending)
    assert states["down"] == "success"
    assert state == ("failed" if ending is FAILED else "success")


@pytest.mark.parametrize(
    ("ending", "then", "ends"), [(FAILED, "upstream_failed", "failed"), (SKIPPED, "skipped", "success")]
)
def test_work_and_teardown_follow_a_setup_that_did_not_succeed(
    control: Control, ending: TaskState, then: str, ends: str
) -> None:
    states, state = run_all(control, cleaned(), up=ending)
    assert states == {"up": ending, "one": then, "two": then, "down": then}
    assert state == ends


@pytest.mark.parametrize("counts", [False, True])
def test_a_failed_teardown_fails_the_run_only_if_it_said_so(control: Control, counts: bool) -> None:
    states, state = run_all(control, cleaned(on_failure_fail_dagrun=counts), down=FAILED)
    assert states["down"] == "failed"
    assert state == ("failed" if counts else "success")


def test_a_teardown_that_counts_does_not_hide_the_failure_of_the_work(control: Control) -> None:
    assert run_all(control, cleaned(on_failure_fail_dagrun=True), one=FAILED)[1] == "failed"


def test_work_behind_a_setup_waits_for_it_whatever_its_rule(control: Control) -> None:
    dag = graph("d", {"other": [], "up": [], "one": ["up"], "two": ["one", "other"], "down": ["two"]})
    dag.get_task("down").as_teardown(setups=dag.get_task("up"))
    dag.get_task("two").trigger_rule = TriggerRule.ONE_SUCCESS
    run, worker = control.prepare(dag), control.worker()
    up, other = sorted(control.queue().messages, key=lambda message: message.task_id, reverse=True)
    control.work([other], worker)
    control.decide()
    assert control.states(run)["two"] == "none"
    control.work([up], worker)
    control.decide()
    assert control.states(run)["two"] == "scheduled"


def test_a_run_of_nothing_but_teardowns_ends_well_even_if_they_fail(control: Control) -> None:
    dag = graph("d", {"a": [], "b": ["a"]})
    for task in dag.tasks:
        task.as_teardown()
    assert run_all(control, dag, a=FAILED, b=FAILED) == ({"a": "failed", "b": "failed"}, "success")
