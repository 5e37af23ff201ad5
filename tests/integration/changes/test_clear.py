"""Clearing: what runs again, with which tries, and what is kept of before."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.control import Control, graph
from tests.integration.changes.conftest import Person, changed
from turnout.metadata.errors import ConflictError, NotFoundError, RequestError
from turnout.metadata.states import Cause, RunState, TaskState
from turnout.tasks import DAG

Ran = Callable[..., None]
CHAIN = {"a": [], "b": ["a"], "c": ["b"], "other": []}
DAY = datetime(2024, 1, 1, tzinfo=UTC)


def chain(**more: object) -> DAG:
    return graph("d", CHAIN, task={"retries": 2}, **more)


def days(control: Control, dag: DAG, count: int) -> list[int]:
    """Start runs of several days."""
    control.declare(dag)
    runs = [
        control.insert_run(dag.dag_id, f"day{number}", logical_date=DAY + timedelta(days=number))
        for number in range(count)
    ]
    control.start()
    return runs


def test_a_cleared_task_runs_again_and_its_finished_run_with_it(control: Control, person: Person, ran: Ran) -> None:
    run = control.prepare(chain())
    ran(b=TaskState.FAILED)
    assert control.run_state(run) == "failed"

    changes = person.clear("b", downstream=True)

    assert changed(changes) == {"b": "none", "c": "none"}
    assert [(change.dag_run_id, change.state, change.new_state) for change in changes.dag_runs] == [
        ("run", "failed", "queued")
    ]
    assert control.states(run) == {"a": "success", "b": "none", "c": "none", "other": "success"}
    assert control.sql("SELECT state, started_at, ended_at FROM dag_run") == [("queued", None, None)]
    ran()
    assert control.run_state(run) == "success"
    assert control.sql("SELECT task_id, try_number FROM task_instance ORDER BY 1") == [
        ("a", 1),
        ("b", 2),
        ("c", 1),
        ("other", 1),
    ]


def test_the_tries_begin_anew_and_go_on_counting(control: Control, person: Person, ran: Ran) -> None:
    control.prepare(chain())
    ran(a=TaskState.FAILED)
    control.sql("UPDATE task_instance SET infra_failures = 1 WHERE task_id = 'a'")
    person.clear("a")
    assert control.sql("SELECT try_number, max_tries, infra_failures FROM task_instance WHERE task_id = 'a'") == [
        (1, 3, 0)
    ]


def test_the_earlier_attempt_is_kept_as_it_was(control: Control, person: Person, ran: Ran) -> None:
    control.prepare(chain())
    ran(a=TaskState.FAILED)
    was = control.sql("""
        SELECT attempt_id, try_number, queued_at, started_at, ended_at, worker_id, outcome
        FROM task_instance WHERE task_id = 'a'
    """)
    person.clear("a")
    ran(a=TaskState.FAILED)
    kept = control.sql("""
        SELECT a.attempt_id, a.try_number, a.queued_at, a.started_at, a.ended_at, a.worker_id, a.outcome
        FROM task_attempt a
    """)
    assert kept == was
    assert kept[0][-1] == "failed"


@pytest.mark.parametrize("claimed", [False, True])
def test_an_attempt_that_has_not_ended_is_cancelled(control: Control, person: Person, claimed: bool) -> None:
    run = control.prepare(chain())
    worker = control.worker()
    messages = control.queue().messages
    held = control.claim(messages, worker) if claimed else []
    person.clear("a")
    assert control.states(run)["a"] == "none"
    assert control.sql("""
        SELECT a.outcome, a.cause, a.error, a.ended_at IS NOT NULL, a.started_at IS NOT NULL
        FROM task_attempt a JOIN task_instance t ON t.id = a.task_instance_id WHERE t.task_id = 'a'
    """) == [("cancelled", "cleared", "Cleared by ada.", True, claimed)]
    assert control.claim([message for message in messages if message.task_id == "a"], worker) == []
    assert control.finish([attempt.key for attempt in held if attempt.task_id == "a"]) == []
    assert control.decide().moved == 1
    assert control.states(run)["a"] == "scheduled"


def test_a_cleared_task_instance_has_no_xcom_and_others_keep_theirs(control: Control, person: Person) -> None:
    control.prepare(chain())
    worker = control.worker()
    keys = [attempt.key for attempt in control.claim(control.queue().messages, worker)]
    control.finish(keys, return_value="1")
    assert control.sql("SELECT task_id FROM xcom ORDER BY 1") == ["a", "other"]
    person.clear("a")
    assert control.sql("SELECT task_id FROM xcom") == ["other"]


def test_upstream_failed_runs_again_with_what_failed(control: Control, person: Person, ran: Ran) -> None:
    run = control.prepare(chain())
    ran(a=TaskState.FAILED)
    assert changed(person.clear(only_failed=True)) == {"a": "none", "b": "none", "c": "none"}
    ran()
    assert set(control.states(run).values()) == {"success"}


def test_upstream_and_downstream_are_near_and_far(control: Control, person: Person, ran: Ran) -> None:
    control.prepare(chain())
    ran()
    assert set(changed(person.clear("c", upstream=True, dry=True))) == {"a", "b", "c"}
    assert set(changed(person.clear("a", downstream=True, dry=True))) == {"a", "b", "c"}
    assert set(changed(person.clear("b", dry=True))) == {"b"}
    assert set(changed(person.clear(dry=True))) == {"a", "b", "c", "other"}


def test_only_those_that_run(control: Control, person: Person) -> None:
    control.prepare(chain())
    worker = control.worker()
    control.claim([m for m in control.queue().messages if m.task_id == "a"], worker)
    assert changed(person.clear(only_running=True)) == {"a": "none"}


def test_a_dry_run_changes_nothing(control: Control, person: Person, ran: Ran) -> None:
    run = control.prepare(chain())
    ran()
    assert person.clear(dry=True)
    assert set(control.states(run).values()) == {"success"}
    assert control.run_state(run) == "success"
    assert control.sql("SELECT action FROM audit_log") == []


def test_past_and_future_are_the_runs_before_and_after(control: Control, person: Person, ran: Ran) -> None:
    days(control, chain(), 4)
    ran()

    def runs(**more: object) -> list[str]:
        return [change.dag_run_id for change in person.clear("a", dry=True, **more).task_instances]

    assert runs(run="day1") == ["day1"]
    assert runs(run="day1", past=True) == ["day0", "day1"]
    assert runs(run="day1", future=True) == ["day1", "day2", "day3"]
    assert runs(run="day1", past=True, future=True) == ["day0", "day1", "day2", "day3"]
    assert runs(run=None, from_date=DAY + timedelta(days=1), to_date=DAY + timedelta(days=2)) == ["day1", "day2"]
    assert runs(run=None, to_date=DAY) == ["day0"]


def test_no_more_runs_start_again_than_the_dag_allows(control: Control, person: Person, ran: Ran) -> None:
    days(control, chain(), 3)
    ran()
    control.sql("UPDATE dag SET max_active_runs = 1")
    person.clear("a", run="day0", future=True)
    assert control.start() == 1
    ran()
    ran()
    ran()
    assert control.sql("SELECT DISTINCT state FROM dag_run") == ["success"]


def test_a_run_that_starts_again_keeps_its_version(control: Control, person: Person, ran: Ran) -> None:
    run = control.prepare(chain())
    ran()
    control.declare(graph("d", {"a": [], "b": ["a"], "new": ["a"]}, task={"retries": 7, "queue": "gpu"}))
    person.clear("b", "c")
    ran()
    assert set(control.states(run)) == {"a", "b", "c", "other"}
    assert control.sql("SELECT queue, max_tries FROM task_instance WHERE task_id = 'b'") == [("default", 3)]


def test_a_run_that_starts_again_gets_the_latest_version_when_asked(control: Control, person: Person, ran: Ran) -> None:
    run = control.prepare(chain())
    ran()
    control.declare(graph("d", {"a": [], "b": ["a"], "new": ["a"]}, task={"retries": 7, "pool_slots": 2}))
    assert set(changed(person.clear("a", downstream=True, latest=True))) == {"a", "b"}
    ran()
    assert control.run_state(run) == "success"
    assert control.states(run) == dict.fromkeys(("a", "b", "c", "other", "new"), "success")
    assert control.sql("SELECT task_id, pool_slots, try_number, max_tries FROM task_instance ORDER BY 1") == [
        ("a", 2, 2, 8),
        ("b", 2, 2, 8),
        ("c", 1, 1, 2),
        ("new", 2, 1, 7),
        ("other", 1, 1, 2),
    ]


def test_a_run_that_runs_keeps_its_version_even_when_the_latest_is_asked_for(control: Control, person: Person) -> None:
    control.prepare(chain())
    (version,) = control.sql("SELECT dag_version_id FROM dag_run")
    control.declare(graph("d", {"new": []}))
    person.clear("a", latest=True)
    assert control.sql("SELECT dag_version_id, state FROM dag_run") == [(version, "running")]


def test_it_is_written_down_who_cleared_what(control: Control, person: Person, ran: Ran) -> None:
    control.prepare(chain())
    ran()
    person.clear("a")
    assert control.sql("SELECT actor, action, dag_id, run_id, task_id, detail FROM audit_log") == [
        (
            "ada",
            "task.clear",
            "d",
            "run",
            "a",
            {
                "task_instances": {"success -> none": 1},
                "dag_runs": {"success -> queued": 1},
                "asked": {"runs": {"dag_id": "d", "run_id": "run"}, "task_ids": ["a"]},
            },
        )
    ]


def test_nothing_to_clear_is_no_change(control: Control, person: Person) -> None:
    control.prepare(chain())
    assert not person.clear("b")
    assert control.sql("SELECT action FROM audit_log") == []


def test_what_is_not_there_is_refused(control: Control, person: Person, ran: Ran) -> None:
    with pytest.raises(NotFoundError, match="There is no DAG d"):
        person.clear()
    control.prepare(chain())
    ran()
    with pytest.raises(NotFoundError, match="There is no run of DAG d called zzz"):
        person.clear(run="zzz")
    with pytest.raises(NotFoundError, match=r"There is no task in DAG d called othr\. Did you mean other"):
        person.clear("othr")
    with pytest.raises(RequestError, match="Name a run of DAG d"):
        person.clear(run=None)
    with pytest.raises(RequestError, match="not both"):
        person.clear(from_date=DAY)
    with pytest.raises(RequestError, match="The past and the future"):
        person.clear(run=None, from_date=DAY, past=True)


def test_a_dag_that_no_file_declares_cannot_run_again(control: Control, person: Person, ran: Ran) -> None:
    control.prepare(chain())
    ran()
    control.sql("UPDATE dag SET is_active = false")
    with pytest.raises(ConflictError, match=r"no longer declared by test\.py"):
        person.clear()


def test_setups_and_their_teardowns_are_cleared_with_the_task_between_them(
    control: Control, person: Person, ran: Ran
) -> None:
    upstream = {"up": [], "a": ["up"], "b": ["a"], "down": ["b"], "later": ["down"]}
    dag = graph("d", upstream)
    dag.task_dict["down"].as_teardown(setups=dag.task_dict["up"])
    control.declare(dag)
    control.insert_run("d")
    ran()
    assert set(changed(person.clear("a", dry=True))) == {"up", "a", "down"}
    assert set(changed(person.clear("b", dry=True))) == {"up", "b", "down"}
    assert set(changed(person.clear("b", "later", downstream=True, dry=True))) == {"up", "b", "down", "later"}
    assert set(changed(person.clear("later", dry=True))) == {"later"}
    assert set(changed(person.clear("down", dry=True))) == {"down"}
    assert set(changed(person.clear("up", dry=True))) == {"up", "down"}


def test_setups_run_again_with_what_failed(control: Control, person: Person, ran: Ran) -> None:
    dag = graph("d", {"up": [], "a": ["up"], "down": ["a"]})
    dag.task_dict["down"].as_teardown(setups=dag.task_dict["up"])
    control.declare(dag)
    control.insert_run("d")
    ran(a=TaskState.FAILED)
    assert set(changed(person.clear(only_failed=True))) == {"up", "a", "down"}


def test_a_retry_that_waits_is_forgotten(control: Control, person: Person) -> None:
    control.prepare(chain())
    worker = control.worker()
    (attempt,) = control.claim([m for m in control.queue().messages if m.task_id == "a"], worker)
    control.finish([attempt.key], TaskState.UP_FOR_RETRY, cause=Cause.ERROR, retry_delay_s=3600)
    assert changed(person.clear("a")) == {"a": "none"}
    assert control.sql("SELECT next_try_at, outcome, cause FROM task_instance WHERE task_id = 'a'") == [
        (None, None, None)
    ]
    assert control.sql("SELECT outcome, cause FROM task_attempt") == [("failed", "error")]


@pytest.mark.parametrize("only_failed", [False, True])
def test_a_run_that_was_ended_before_it_started_can_be_run_after_all(
    control: Control, person: Person, only_failed: bool
) -> None:
    control.declare(graph("d", {"a": []}))
    run = control.insert_run("d")
    person.cancel_run()
    assert not person.clear("a")
    changes = person.clear(only_failed=only_failed)
    assert [(change.state, change.new_state) for change in changes.dag_runs] == [("failed", "queued")]
    control.start()
    control.decide()
    assert (control.run_state(run), control.states(run)) == ("running", {"a": "scheduled"})


def test_a_run_that_was_marked_success_before_it_started_has_nothing_that_failed(
    control: Control, person: Person
) -> None:
    control.declare(graph("d", {"a": []}))
    run = control.insert_run("d")
    person.mark_run(RunState.SUCCESS)
    assert not person.clear(only_failed=True)
    assert person.clear()
    assert control.run_state(run) == "queued"
