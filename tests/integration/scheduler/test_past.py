"""`depends_on_past` and `wait_for_downstream`: what waits for the run before, and that its end is never missed."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from tests import rows
from tests.control import BATCH, Control, graph
from turnout.metadata import wakeups
from turnout.metadata.engine import open_engine, transact
from turnout.metadata.states import TaskState
from turnout.metadata.versions import VersionCache
from turnout.scheduler.decide import decide
from turnout.scheduler.queue import queue_ready
from turnout.scheduler.start_runs import start_runs
from turnout.tasks import DAG

LINE = {"a": [], "b": ["a"]}
FAILED, SKIPPED = TaskState.FAILED, TaskState.SKIPPED


def days(control: Control, dag: DAG, count: int, **columns: Any) -> list[int]:
    """Declare a DAG and insert runs of it, one for each day of 2013."""
    control.declare(dag)
    return [
        control.insert_run(dag.dag_id, f"day{day}", logical_date=f"2013-01-{day:02}", **columns)
        for day in range(1, count + 1)
    ]


def begin(control: Control) -> None:
    control.start()
    control.decide()


def finish(control: Control, worker: int, **states: TaskState) -> None:
    """Run what is scheduled, and decide until there is no more news."""
    control.work(control.queue().messages, worker, **states)
    settle(control)


def settle(control: Control) -> None:
    while control.decide().runs:
        pass


def test_the_first_run_has_no_past_and_the_next_waits_for_it_task_by_task(control: Control) -> None:
    first, second = days(control, graph("d", LINE, task={"depends_on_past": True}), 2)
    worker = control.worker()
    begin(control)
    assert [control.states(run) for run in (first, second)] == [
        {"a": "scheduled", "b": "none"},
        {"a": "none", "b": "none"},
    ]
    finish(control, worker)
    assert [control.states(run) for run in (first, second)] == [
        {"a": "success", "b": "scheduled"},
        {"a": "scheduled", "b": "none"},
    ]
    finish(control, worker)
    finish(control, worker)
    assert [control.run_state(run) for run in (first, second)] == ["success", "success"]


@pytest.mark.parametrize(
    ("ending", "then"), [(TaskState.SUCCESS, "scheduled"), (SKIPPED, "scheduled"), (FAILED, "none")]
)
def test_the_task_before_must_have_succeeded_or_been_skipped(control: Control, ending: TaskState, then: str) -> None:
    _, second = days(control, graph("d", {"a": []}, task={"depends_on_past": True}), 2)
    worker = control.worker()
    begin(control)
    finish(control, worker, a=ending)
    assert control.states(second)["a"] == then
    assert control.run_state(second) == "running"


def test_a_task_that_waits_for_downstream_waits_for_what_directly_follows_it_in_the_run_before(
    control: Control,
) -> None:
    dag = graph("d", {"a": [], "b": ["a"], "c": ["b"]})
    dag.get_task("a").wait_for_downstream = dag.get_task("a").depends_on_past = True
    first, second = days(control, dag, 2)
    worker = control.worker()
    begin(control)
    finish(control, worker)
    assert (control.states(first)["b"], control.states(second)["a"]) == ("scheduled", "none")
    finish(control, worker)
    assert (control.states(first)["c"], control.states(second)["a"]) == ("scheduled", "scheduled")


def test_what_is_skipped_or_failed_by_its_rule_does_not_wait_for_the_past(control: Control) -> None:
    dag = graph("d", LINE)
    dag.get_task("b").depends_on_past = True
    _, second = days(control, dag, 2)
    worker = control.worker()
    begin(control)
    finish(control, worker, a=FAILED)
    assert control.states(second) == {"a": "failed", "b": "upstream_failed"}


def test_an_empty_task_passes_in_all_runs_one_after_the_other(control: Control) -> None:
    runs = days(control, graph("d", LINE, empty="ab", task={"depends_on_past": True}), 3)
    begin(control)
    settle(control)
    assert [control.run_state(run) for run in runs] == ["success"] * 3


def test_a_run_before_that_has_not_started_is_waited_for(control: Control) -> None:
    first, second = days(control, graph("d", {"a": []}, task={"depends_on_past": True}), 2)
    control.sql("UPDATE dag_run SET run_after = now() + interval '1 hour' WHERE id = :run", run=first)
    begin(control)
    assert control.states(second) == {"a": "none"}
    control.sql("UPDATE dag_run SET run_after = now()")
    begin(control)
    finish(control, control.worker())
    assert control.states(second) == {"a": "scheduled"}


def test_a_task_that_the_run_before_does_not_have_does_not_wait_for_it(control: Control) -> None:
    (first,) = days(control, graph("d", {"old": []}), 1)
    begin(control)
    control.declare(graph("d", {"new": []}, task={"depends_on_past": True}))
    second = control.insert_run("d", "day2", logical_date="2013-01-02")
    begin(control)
    assert (control.states(first), control.states(second)) == ({"old": "scheduled"}, {"new": "scheduled"})


def test_runs_of_other_dags_and_later_ones_are_no_past(control: Control) -> None:
    dag = graph("d", {"a": []}, task={"depends_on_past": True})
    control.declare(graph("other", {"a": []}))
    control.insert_run("other", logical_date="2012-12-31")
    (first,) = days(control, dag, 1)
    later = control.insert_run("d", "later", logical_date="2014-01-01")
    undated = control.insert_run("d", "undated")
    begin(control)
    assert control.states(first) == control.states(undated) == {"a": "scheduled"}
    assert control.states(later) == {"a": "none"}


def test_a_past_that_changed_without_a_word_is_caught_by_the_sweep(control: Control) -> None:
    first, second = days(control, graph("d", {"a": []}, task={"depends_on_past": True}), 2)
    begin(control)
    control.sql("DELETE FROM dag_run WHERE id = :run", run=first)
    settle(control)
    assert control.states(second) == {"a": "none"}
    control.do(wakeups.leave_for_active_runs)
    settle(control)
    assert control.states(second) == {"a": "scheduled"}


def test_a_dag_that_does_not_look_back_leaves_no_wake_ups_and_reads_no_past(control: Control) -> None:
    days(control, graph("d", LINE), 2)
    worker = control.worker()
    begin(control)
    statements: list[str] = []
    event.listen(control.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    control.work(control.queue().messages, worker)
    control.decide()
    assert control.sql("SELECT count(*) FROM wakeup") == [0]
    assert not [statement for statement in statements if "logical_date <" in statement or "logical_date >" in statement]


def test_only_what_waits_in_the_next_run_is_woken(control: Control) -> None:
    first, second, _ = days(control, graph("d", {"a": [], "b": []}, task={"depends_on_past": True}), 3)
    worker = control.worker()
    begin(control)
    (message,) = (message for message in control.queue().messages if message.task_id == "a")
    control.work([message], worker)
    control.decide()
    assert control.states(first) == {"a": "success", "b": "queued"}
    assert control.sql("SELECT dag_run_id, task_id FROM wakeup") == [(second, "a")]
    control.decide()
    assert control.sql("SELECT count(*) FROM wakeup") == [0]


def test_what_has_ended_in_the_next_run_already_is_not_woken(control: Control) -> None:
    _, second = days(control, graph("d", {"a": []}, task={"depends_on_past": True}), 2)
    worker = control.worker()
    begin(control)
    control.sql("UPDATE task_instance SET state = 'success' WHERE dag_run_id = :run", run=second)
    control.work(control.queue().messages, worker)
    control.decide()
    assert control.sql("SELECT count(*) FROM wakeup") == [0]


def at_statement(engine: Engine, number: int, act: Callable[[], object]) -> list[str]:
    """Let `act` happen before the so many-th statement of an engine; return the list that statements are noted in."""
    seen: list[str] = []

    @event.listens_for(engine, "before_cursor_execute")
    def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)
        if len(seen) == number:
            act()

    return seen


@pytest.fixture
def apart(database_url: str) -> Any:
    """Another engine, for the scheduler whose statements are watched."""
    engine = open_engine(database_url, name="watched")
    yield engine
    engine.dispose()


@pytest.mark.parametrize("number", range(1, 12))
def test_an_end_between_any_two_statements_of_the_decision_for_the_next_run_is_not_missed(
    control: Control, apart: Engine, number: int
) -> None:
    _, second = days(control, graph("d", {"a": []}, task={"depends_on_past": True}), 2)
    worker = control.worker()
    begin(control)
    messages = control.queue().messages

    def end_the_first() -> None:
        control.work(messages, worker)
        control.decide()

    control.sql("INSERT INTO wakeup (dag_run_id) VALUES (:run)", run=second)
    seen = at_statement(apart, number, end_the_first)
    transact(apart, lambda c: decide(c, VersionCache(), BATCH))
    if len(seen) < number:
        end_the_first()
    settle(control)
    assert control.states(second) == {"a": "scheduled"}


@pytest.mark.parametrize("number", range(1, 6))
def test_an_end_between_any_two_statements_of_the_start_of_the_next_run_is_not_missed(
    control: Control, apart: Engine, number: int
) -> None:
    (_,) = days(control, graph("d", {"a": []}, task={"depends_on_past": True}), 1)
    worker = control.worker()
    begin(control)
    messages = control.queue().messages
    second = control.insert_run("d", "day2", logical_date="2013-01-02")

    def end_the_first() -> None:
        control.work(messages, worker)
        control.decide()

    seen = at_statement(apart, number, end_the_first)
    transact(apart, lambda c: start_runs(c, BATCH))
    if len(seen) < number:
        end_the_first()
    settle(control)
    assert control.states(second) == {"a": "scheduled"}


def test_schedulers_at_the_same_time_decide_for_neighbouring_runs_in_the_right_order(
    control: Control, engine: Engine
) -> None:
    dag = graph("d", {"a": [], "b": ["a"], "c": ["b"]}, task={"depends_on_past": True})
    dag.get_task("a").wait_for_downstream = True
    runs = days(control, dag, 8)
    worker = control.worker(slots=1000)

    def schedule(scheduler_id: int) -> None:
        versions = VersionCache()
        while not over.is_set():
            transact(engine, lambda c: start_runs(c, BATCH))
            transact(engine, lambda c: decide(c, versions, 2))
            messages = transact(engine, lambda c: queue_ready(c, scheduler_id, BATCH)).messages
            control.work(messages, worker)
            if not control.sql("SELECT 1 FROM dag_run WHERE state IN ('queued', 'running') LIMIT 1"):
                over.set()

    over = threading.Event()
    with ThreadPoolExecutor(3) as threads:
        futures = [threads.submit(schedule, control.do(rows.insert_scheduler)) for _ in range(3)]
        try:
            for future in futures:
                future.result(60)
        finally:
            over.set()
    assert {control.run_state(run) for run in runs} == {"success"}
    with engine.connect() as connection:
        out_of_order = connection.scalar(text(_OUT_OF_ORDER))
    assert out_of_order == 0


_OUT_OF_ORDER = """
    SELECT count(*) FROM task_instance t JOIN dag_run r ON r.id = t.dag_run_id
    JOIN dag_run p ON p.dag_id = r.dag_id AND p.logical_date = r.logical_date - interval '1 day'
    JOIN task_instance before ON before.dag_run_id = p.id
    WHERE before.ended_at > t.scheduled_at
      AND (before.task_id = t.task_id OR (t.task_id = 'a' AND before.task_id = 'b'))
"""
