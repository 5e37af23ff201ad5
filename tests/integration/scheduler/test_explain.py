"""Explain: what a task instance or a run waits for, with numbers, names and the remedy."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from tests import rows
from tests.control import Control, graph
from turnout.config.settings import SchedulerSettings
from turnout.metadata.changes.cancel import cancel_runs
from turnout.metadata.changes.selection import RunSelection
from turnout.metadata.errors import NotFoundError
from turnout.metadata.listings.explanations import Reason, RunExplanation, TaskExplanation, Why
from turnout.metadata.pausing import set_paused
from turnout.metadata.processes import LoopReport, Trouble, report_loop
from turnout.metadata.routing import set_drained, set_queue_paused
from turnout.metadata.states import TaskState
from turnout.scheduler.explaining.run import explain_run
from turnout.scheduler.explaining.task import explain_task

LINE = {"a": [], "b": ["a"], "c": ["b"]}


def wait(control: Control, dag_id: str, tasks: Iterable[str], dag: Any = None, **task: Any) -> int:
    """Let tasks of a new DAG wait for their slots."""
    return control.prepare(graph(dag_id, {name: [] for name in tasks}, task=task, **(dag or {})))


def explain(control: Control, dag_id: str, task_id: str, run_id: str = "run", **settings: Any) -> TaskExplanation:
    limits = SchedulerSettings(**settings)
    return control.do(lambda c: explain_task(c, dag_id, run_id, task_id, settings=limits))


def explain_the_run(control: Control, dag_id: str, run_id: str) -> RunExplanation:
    return control.do(lambda c: explain_run(c, dag_id, run_id))


def why(explanation: TaskExplanation | RunExplanation) -> list[str]:
    return [reason.reason for reason in explanation.reasons]


def only(explanation: TaskExplanation | RunExplanation) -> Reason:
    (reason,) = explanation.reasons
    return reason


def pool(control: Control, name: str, slots: int) -> None:
    control.do(lambda c: rows.insert_pool(c, name, slots))


def test_a_task_that_nothing_stops_can_start_now(control: Control) -> None:
    control.worker()
    wait(control, "d", ["a"])
    explanation = explain(control, "d", "a")
    assert explanation.verdict == "Task a can start now: the next pass of a scheduler will queue it."
    assert explanation.waits_for is None
    assert why(explanation) == ["can_start"]
    assert explanation.line is not None
    assert (explanation.line.before, explanation.line.pool) == (0, "default_pool")


def test_a_task_names_those_upstream_that_have_not_ended_and_its_trigger_rule(control: Control) -> None:
    worker = control.worker()
    control.prepare(graph("d", {"a": [], "b": [], "c": ["a", "b"]}))
    (a, b) = control.queue().messages
    control.work([a], worker)
    control.claim([b], worker)
    explanation = explain(control, "d", "c")
    assert explanation.verdict == (
        "Task c has not begun and waits: it waits for b (running) upstream, by trigger rule all_success."
    )
    assert only(explanation).remedy == "See what that waits for: turnout tasks explain d run b"
    assert only(explanation).who == ["b (running)"]


def test_a_task_of_which_all_upstream_has_ended_waits_for_a_decision_only(control: Control) -> None:
    worker = control.worker()
    control.prepare(graph("d", LINE))
    control.work(control.queue().messages, worker)
    explanation = explain(control, "d", "b")
    assert why(explanation) == ["decision_due"]
    control.decide()
    assert control.queue().messages[0].task_id == "b"


def test_a_task_that_has_nothing_to_run_waits_for_no_worker_and_no_pool(control: Control) -> None:
    pool(control, "none", 0)
    control.prepare(graph("d", {"a": [], "b": ["a"]}, empty=["b"], task={"pool": "none"}))
    assert why(explain(control, "d", "a")) == ["pool_full", "no_worker"]
    assert why(explain(control, "d", "b")) == ["upstream"]


def test_what_will_be_in_the_way_of_a_task_later_is_told_beside_what_it_waits_for(control: Control) -> None:
    control.prepare(graph("d", LINE, task={"pool": "missing"}))
    control.do(lambda c: set_paused(c, "d", paused=True, actor="test"))
    assert why(explain(control, "d", "b")) == ["upstream", "dag_paused", "pool_missing", "no_worker"]


def test_a_task_names_the_run_before_on_which_it_depends(control: Control) -> None:
    worker = control.worker()
    control.declare(graph("d", {"a": []}, task={"depends_on_past": True}))
    control.insert_run("d", "first", logical_date="2013-01-01T00:00:00Z")
    control.insert_run("d", "second", logical_date="2013-01-02T00:00:00Z")
    control.start()
    control.decide()
    control.claim(control.queue().messages, worker)
    reason = only(explain(control, "d", "a", "second"))
    assert reason.reason is Why.PAST_RUN
    assert reason.message == (
        "It depends on the run before, first (running): there a (running) must have succeeded or been skipped."
    )
    assert reason.remedy == "See why: turnout tasks explain d first a"


def test_a_task_to_be_retried_says_when_and_after_what(control: Control) -> None:
    worker = control.worker()
    control.prepare(graph("d", {"a": []}, task={"retries": 2}))
    (claimed,) = control.claim(control.queue().messages, worker)
    control.finish([claimed.key], TaskState.UP_FOR_RETRY, error="exit code 3", retry_delay_s=600)
    explanation = explain(control, "d", "a")
    reason = only(explanation)
    assert (reason.reason, reason.until is not None) == (Why.RETRY_TIME, True)
    assert reason.message.startswith("Try 1 of 3 failed (exit code 3); it is tried again at ")
    assert reason.message.endswith("in 10 min.")
    control.sql("UPDATE task_instance SET next_try_at = now()")
    assert why(explain(control, "d", "a")) == ["decision_due"]


def test_a_paused_dag_is_the_reason_and_unpausing_it_the_remedy(control: Control) -> None:
    control.worker()
    wait(control, "d", ["a"])
    control.do(lambda c: set_paused(c, "d", paused=True, actor="test"))
    explanation = explain(control, "d", "a")
    assert explanation.verdict == "Task a is scheduled and waits: DAG d is paused."
    assert only(explanation).remedy == "turnout dags unpause d"


def test_a_queue_that_nobody_serves_is_named_with_what_is_served(control: Control) -> None:
    control.worker(queues=["gpu", "io"])
    wait(control, "d", ["a"], queue="gpus")
    reason = only(explain(control, "d", "a"))
    assert reason.reason is Why.NO_WORKER
    assert reason.message == "No live worker serves queue gpus of pool default_pool: w serves gpu, io."
    assert reason.remedy == "Did the task mean queue gpu? Start one: turnout worker --queues gpus"


def test_without_any_worker_that_is_said(control: Control) -> None:
    wait(control, "d", ["a"])
    assert "no worker is alive at all" in only(explain(control, "d", "a")).message


def test_a_missing_pool_is_the_reason_and_a_near_name_the_guess(control: Control) -> None:
    control.worker()
    pool(control, "cards", 1)
    wait(control, "d", ["a"], pool="card")
    reason = only(explain(control, "d", "a"))
    assert (reason.reason, reason.subject) == (Why.POOL_MISSING, "card")
    assert reason.remedy == "Did the task mean pool cards? Else make it: turnout pools set card SLOTS"


def test_a_full_pool_says_who_holds_it(control: Control) -> None:
    worker = control.worker()
    pool(control, "cards", 2)
    wait(control, "d", ["a", "b", "c"], pool="cards")
    control.claim(control.queue().messages, worker)
    explanation = explain(control, "d", "c")
    reason = only(explanation)
    assert reason.message == "Pool cards is full: 2 of 2 slots are used, by d run a, d run b."
    assert (reason.limit, reason.used, reason.needed, reason.who_count) == (2, 2, 1, 2)


def test_slots_that_others_will_take_first_are_said_to_go_to_them(control: Control) -> None:
    control.worker()
    pool(control, "cards", 2)
    wait(control, "d", ["a", "b", "c"], pool="cards")
    explanation = explain(control, "d", "c")
    assert only(explanation).message == (
        "The free slots of pool cards (2 of 2) go to what stands before it in line (d run a, d run b)."
    )
    assert explanation.line is not None
    assert (explanation.line.before, explanation.line.first) == (2, ["d run a", "d run b"])


def test_slots_that_are_kept_for_a_task_that_needs_more_are_said_to_be(control: Control) -> None:
    worker = control.worker()
    pool(control, "cards", 3)
    wait(control, "d", ["a"], pool="cards")
    control.claim(control.queue().messages, worker)
    wait(control, "e", ["big"], pool="cards", pool_slots=3, priority_weight=5)
    wait(control, "f", ["small"], pool="cards")
    reason = only(explain(control, "f", "small"))
    assert reason.message == (
        "The free slots of pool cards (2 of 3) are kept for e run big, which needs 3 and stands before it in line."
    )
    big = only(explain(control, "e", "big"))
    assert big.message == "Pool cards has 2 of 3 slots free, and the task needs 3; the others are used by d run a."


def test_a_pool_that_is_too_small_is_said_to_make_it_fail(control: Control) -> None:
    control.worker()
    pool(control, "cards", 1)
    wait(control, "d", ["a"], pool="cards", pool_slots=2)
    reason = only(explain(control, "d", "a"))
    assert reason.message == "Pool cards has 1 slot in all, and the task needs 2: it will fail (pool_too_small)."
    assert reason.remedy == "Give it more slots: turnout pools set cards 2"


def test_a_rate_that_is_used_up_says_when_there_is_more(control: Control) -> None:
    worker = control.worker()
    pool(control, "api", 10)
    control.sql("UPDATE pool SET rate_starts = 1, rate_period_s = 3600 WHERE name = 'api'")
    wait(control, "d", ["a", "b"], pool="api")
    control.work(control.queue().messages, worker)
    reason = only(explain(control, "d", "b"))
    assert (reason.message, reason.limit, reason.used) == ("Pool api may start 1 in 3600 s: 1 started.", 1, 1)
    assert reason.until is not None
    assert reason.remedy == "Wait 60 min, or raise the rate of the pool."


def test_what_stands_behind_a_task_is_no_reason_though_it_goes_first(control: Control) -> None:
    control.worker()
    pool(control, "api", 10)
    pool(control, "db", 1)
    control.sql("UPDATE pool SET rate_starts = 1, rate_period_s = 3600 WHERE name = 'api'")
    wait(control, "d", ["before"], pool="api", priority_weight=3)
    wait(control, "e", ["it"], pool={"api": 1, "db": 1}, priority_weight=2)
    wait(control, "f", ["behind"], pool="db")
    reason = only(explain(control, "e", "it"))
    assert reason.message == (
        "Pool api may start 1 in 3600 s: 0 started, and the rest goes to what stands before it in line (d run before)."
    )
    assert [message.task_id for message in control.queue().messages] == ["before", "behind"]


def test_busy_workers_are_said_to_be_with_their_slots(control: Control) -> None:
    worker = control.worker(slots=2)
    wait(control, "d", ["a", "b", "c"])
    first, _ = control.queue().messages
    control.claim([first], worker)
    reason = only(explain(control, "d", "c"))
    assert reason.message == (
        "1 live worker of queue default (w) with no free slot: of 2 slots, 1 run tasks and 1 wait for their claim."
    )
    assert (reason.limit, reason.used) == (2, 2)


@pytest.mark.parametrize(
    ("dag", "settings", "message"),
    [
        ({"max_active_tasks": 1}, {}, "1 of at most 1 tasks of its run are active (max_active_tasks): d run a."),
        ({}, {"parallelism": 1}, "1 of at most 1 attempts in all are active (parallelism): d run a."),
    ],
)
def test_a_limit_on_what_is_active_says_who_is(control: Control, dag: Any, settings: Any, message: str) -> None:
    worker = control.worker()
    wait(control, "d", ["a", "b"], dag)
    control.claim(control.queue(limit=1).messages, worker)
    reason = only(explain(control, "d", "b", **settings))
    assert (reason.message, reason.limit, reason.used, reason.who) == (message, 1, 1, ["d run a"])


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("max_active_tis_per_dag", "1 of at most 1 instances of a in all runs are active (max_active_tis_per_dag)"),
        ("max_active_tis_per_dagrun", None),
    ],
)
def test_a_limit_on_the_instances_of_a_task_counts_those_that_it_says(
    control: Control, limit: str, said: str | None
) -> None:
    worker = control.worker()
    control.declare(graph("d", {"a": []}, task={limit: 1}))
    control.insert_run("d", "first")
    control.insert_run("d", "second")
    control.start()
    control.decide()
    control.claim(control.queue(limit=1).messages, worker)
    reason = only(explain(control, "d", "a", "second"))
    if said is None:
        assert reason.reason is Why.CAN_START
    else:
        assert reason.message == f"{said}: d first a."


def test_every_reason_is_named_when_there_are_several(control: Control) -> None:
    pool(control, "none", 0)
    wait(control, "d", ["a"], pool="none", queue="gpu")
    control.do(lambda c: set_paused(c, "d", paused=True, actor="test"))
    control.kill(control.scheduler_id)
    explanation = explain(control, "d", "a")
    assert set(why(explanation)) == {"dag_paused", "pool_full", "no_worker", "no_scheduler"}
    assert explanation.verdict.endswith("; and 2 more.")


def test_a_queued_task_says_since_when_and_what_may_be_wrong(control: Control) -> None:
    control.worker()
    wait(control, "d", ["a"])
    assert control.queue().messages
    soon = only(explain(control, "d", "a"))
    assert soon.message.startswith("It was queued for default_pool.default 0 s ago by test, and no worker has claimed")
    assert soon.message.endswith(": 1 live worker of that queue with 0 of 100 slots busy.")
    control.sql("UPDATE task_instance SET queued_at = now() - interval '5 min'")
    late = only(explain(control, "d", "a"))
    assert late.remedy.startswith("1 attempt has waited so for more than 10 s: the broker may be away")
    control.kill(control.scheduler_id)
    orphan = explain(control, "d", "a")
    assert orphan.reasons[0].remedy.startswith("Wait: the scheduler that queued it has gone")
    assert why(orphan) == ["not_claimed", "no_scheduler"]


def trouble(control: Control, *troubles: Trouble) -> None:
    control.do(lambda c: report_loop(c, control.scheduler_id, LoopReport("{}", troubles=troubles)))


def test_a_broker_that_is_away_stops_what_is_published_and_is_told_to_the_others(control: Control) -> None:
    control.worker()
    wait(control, "d", ["a", "b"])
    control.queue(limit=1)
    trouble(control, Trouble("broker", "Cannot use the message broker at redis://x: refused.", 60))
    waiting = {row: explain(control, "d", row) for row in ("a", "b")}
    states = {explanation.state: explanation for explanation in waiting.values()}
    assert why(states["queued"]) == ["not_claimed", "broker_down"]
    assert "test cannot reach the broker since " in states["queued"].verdict
    assert states["queued"].reasons[1].message.endswith(" UTC: Cannot use the message broker at redis://x: refused.")
    assert why(states["scheduled"]) == ["can_start", "broker_down"]
    assert not states["scheduled"].reasons[1].is_blocking
    trouble(control)
    assert why(explain(control, "d", states["queued"].task_id)) == ["not_claimed"]


def test_what_a_scheduler_leaves_alone_says_so(control: Control) -> None:
    control.worker()
    wait(control, "d", ["a", "b"])
    (id_,) = control.sql("SELECT id FROM task_instance WHERE task_id = 'a'")
    where = {"dag_id": "d", "task_id": "a", "task_instance_id": str(id_)}
    trouble(control, Trouble("refused", "violates check constraint odd", 5, where))
    refused = only(explain(control, "d", "a"))
    assert (refused.reason, refused.is_blocking) == (Why.REFUSED, True)
    assert "was refused what it was to do for dag_id d task_id a" in refused.message
    assert "violates check constraint odd" in refused.message
    assert why(explain(control, "d", "b")) == ["can_start"]


def test_a_queued_run_says_that_its_dag_is_left_alone_and_a_running_one_that_it_is_itself(control: Control) -> None:
    control.declare(graph("d", LINE))
    control.insert_run("d", "one")
    control.start()
    control.insert_run("d", "two")
    trouble(
        control,
        Trouble("refused", "x", 5, {"dag_id": "d", "step": "start_runs"}),
        Trouble("refused", "y", 5, {"dag_id": "d", "step": "create_runs"}),
        Trouble("refused", "z", 5, {"dag_id": "d", "run_id": "one"}),
        Trouble("refused", "z", 5, {"dag_id": "e", "run_id": "one"}),
    )
    assert why(explain_the_run(control, "d", "one")) == ["tasks_unfinished", "refused"]
    assert "for dag_id d run_id one: z." in explain_the_run(control, "d", "one").verdict
    assert why(explain_the_run(control, "d", "two")) == ["refused"]
    assert why(explain(control, "d", "b", "one")) == ["upstream", "no_worker", "refused"]


def test_a_task_of_a_paused_queue_says_who_paused_it(control: Control) -> None:
    control.worker()
    wait(control, "d", ["a"])
    control.do(lambda c: set_queue_paused(c, "default", paused=True, actor="ada"))
    reason = only(explain(control, "d", "a"))
    assert (reason.reason, reason.subject) == (Why.QUEUE_PAUSED, "default")
    assert (reason.message, reason.remedy) == ("Queue default is paused by ada.", "turnout queues unpause default")


def test_a_task_whose_only_worker_is_drained_says_so(control: Control) -> None:
    control.worker()
    wait(control, "d", ["a"])
    control.do(lambda c: set_drained(c, "w", drained=True, actor="ada"))
    reason = only(explain(control, "d", "a"))
    assert reason.reason == Why.NO_WORKER
    assert "w serves default, but takes nothing new (drained by ada)" in reason.message
    control.do(lambda c: set_queue_paused(c, "default", paused=True, actor="ada"))
    assert why(explain(control, "d", "a")) == ["queue_paused", "no_worker"]


def test_a_running_task_says_where_and_since_when_and_whether_its_worker_is_silent(control: Control) -> None:
    worker = control.worker()
    wait(control, "d", ["a"], retries=2)
    control.claim(control.queue().messages, worker)
    explanation = explain(control, "d", "a")
    assert explanation.verdict.startswith("Task a has been running on w (host ")
    assert explanation.verdict.endswith(" for 0 s: try 1 of 3.")
    assert explanation.waits_for is None
    control.kill(worker)
    assert why(explain(control, "d", "a")) == ["running", "worker_silent"]


def test_a_task_that_has_ended_says_how_and_because_of_what(control: Control) -> None:
    worker = control.worker()
    control.prepare(graph("d", LINE))
    (claimed,) = control.claim(control.queue().messages, worker)
    control.finish([claimed.key], TaskState.FAILED, error="exit code 3")
    control.decide()
    assert explain(control, "d", "a").verdict == "Task a has ended: failed on w 0 s ago: exit code 3."
    assert explain(control, "d", "b").verdict == "Task b has ended: upstream_failed 0 s ago: upstream a (failed)."
    assert "turnout tasks clear d run -t b" in only(explain(control, "d", "b")).remedy


def test_a_broken_file_is_told_but_stops_nothing(control: Control) -> None:
    control.worker()
    wait(control, "d", ["a"])
    control.sql("INSERT INTO import_error (file_path, message, line) VALUES ('test.py', 'no such module x', 3)")
    explanation = explain(control, "d", "a")
    assert why(explanation) == ["can_start", "file_broken"]
    assert explanation.reasons[1].message == "test.py, line 3 cannot be imported since 0 s: no such module x."
    assert not explanation.reasons[1].is_blocking


def test_a_scheduler_whose_loop_stands_still_is_told(control: Control) -> None:
    control.worker()
    wait(control, "d", ["a"])
    control.sql("UPDATE process SET last_loop_at = now() - interval '5 min' WHERE kind = 'scheduler'")
    reason = only(explain(control, "d", "a"))
    assert reason.message == "No scheduler has ended a loop for 5 min, though test is alive."


def test_a_task_whose_run_has_not_started_says_why_the_run_does_not(control: Control) -> None:
    control.declare(graph("d", LINE, max_active_runs=1))
    control.insert_run("d", "first")
    control.start()
    control.insert_run("d", "second")
    explanation = explain(control, "d", "b", "second")
    assert explanation.state == "none"
    assert why(explanation) == ["max_active_runs", "run_not_started"]
    with pytest.raises(NotFoundError, match="Did you mean b"):
        explain(control, "d", "bb", "second")


def test_a_task_of_a_run_that_was_ended_before_it_started_says_so(control: Control) -> None:
    control.declare(graph("d", LINE))
    control.insert_run("d", "one")
    selection = RunSelection("d", "one")
    control.do(lambda c: cancel_runs(c, selection, actor="ada"))
    reason = only(explain(control, "d", "a", "one"))
    assert (reason.reason, reason.remedy) == (Why.RUN_FINISHED, "Run it after all: turnout runs clear d one")
    assert reason.message == "Run one was ended (failed) before it started, and has no tasks."


def test_a_task_that_its_run_skipped_does_not_blame_what_is_upstream(control: Control) -> None:
    run = control.prepare(graph("d", LINE, dagrun_timeout=timedelta(hours=1)))
    control.sql("UPDATE dag_run SET timeout_at = now() - interval '1 s'")
    control.decide()
    assert set(control.states(run).values()) == {"skipped"}
    assert explain(control, "d", "b").verdict.startswith("Task b has ended: skipped (run_timeout) 0 s ago")
    assert "upstream" not in explain(control, "d", "b").verdict


def test_a_run_that_nothing_stops_can_start_now(control: Control) -> None:
    control.declare(graph("d", LINE))
    run = control.insert_run("d", "one")
    assert why(explain_the_run(control, "d", "one")) == ["can_start"]
    control.start()
    assert control.run_state(run) == "running"


def test_a_run_that_waits_for_others_names_them(control: Control) -> None:
    control.declare(graph("d", LINE, max_active_runs=1))
    control.insert_run("d", "first")
    control.start()
    control.insert_run("d", "second")
    control.insert_run("d", "third")
    explanation = explain_the_run(control, "d", "third")
    assert explanation.verdict == (
        "Run third is queued and waits: 1 run of DAG d of at most 1 are running (max_active_runs): first; "
        "before it in the line of the DAG: 1 queued run (second)."
    )
    assert [reason.who for reason in explanation.reasons] == [["first"], ["second"]]


def test_a_run_stands_behind_those_of_higher_priority_and_lets_backfills_have_their_share(control: Control) -> None:
    control.declare(graph("d", LINE, max_active_runs=2))
    control.insert_run("d", "first")
    control.start()
    control.insert_run("d", "mine")
    control.insert_run("d", "urgent", priority=3)
    reason = only(explain_the_run(control, "d", "mine"))
    assert (reason.reason, reason.who) == (Why.RUNS_BEFORE, ["urgent"])
    control.sql("DELETE FROM dag_run WHERE run_id = 'urgent'")
    control.insert_run("d", "old", run_type="backfill")
    control.sql("UPDATE dag SET backfill_turn = 0.9")
    reason = only(explain_the_run(control, "d", "mine"))
    assert reason.message == (
        "The next starts are those of backfill runs of the DAG: old (a share of 0.25 of max_active_runs, 2, is for "
        "backfills)."
    )
    assert why(explain_the_run(control, "d", "old")) == ["can_start"]


def test_a_run_says_when_it_is_due_whether_its_dag_is_paused_or_gone_and_that_no_scheduler_lives(
    control: Control,
) -> None:
    control.declare(graph("d", LINE))
    control.insert_run("d", "one")
    control.sql("UPDATE dag_run SET run_after = now() + interval '2 h'")
    assert only(explain_the_run(control, "d", "one")).message.endswith(" UTC, in 2 h.")
    control.sql("UPDATE dag SET is_paused = true, is_active = false")
    control.kill(control.scheduler_id)
    explanation = explain_the_run(control, "d", "one")
    assert why(explanation) == ["dag_paused", "dag_gone", "run_after", "no_scheduler"]
    assert explanation.reasons[1].message == "test.py no longer declares DAG d, or is gone."


def test_a_running_run_says_what_it_still_has_to_do(control: Control) -> None:
    control.worker()
    control.prepare(graph("d", LINE))
    assert control.queue().messages
    explanation = explain_the_run(control, "d", "run")
    assert explanation.verdict == "Run run has been running for 0 s: 3 tasks not finished: 2 none (b, c), 1 queued (a)."


def test_a_run_that_has_ended_says_how(control: Control) -> None:
    worker = control.worker()
    control.prepare(graph("d", {"a": []}))
    control.work(control.queue().messages, worker)
    control.decide()
    assert explain_the_run(control, "d", "run").verdict == "Run run has ended: success, 0 s ago."


def test_to_explain_locks_and_changes_nothing(control: Control) -> None:
    control.worker()
    wait(control, "d", ["a", "b"], max_active_tis_per_dag=1)
    with control.engine.connect() as reader:
        explain_task(reader, "d", "run", "b")
        explain_run(reader, "d", "run")
        assert reader.exec_driver_sql("SELECT pg_current_xact_id_if_assigned()").scalar() is None
        assert len(control.queue().messages) == 2
