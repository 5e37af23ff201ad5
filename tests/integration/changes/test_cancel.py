"""Cancelling: what has not ended ends now, and nothing further of it begins."""

from collections.abc import Callable

import pytest

from tests.control import Control, graph
from tests.integration.changes.conftest import Person, changed, hold
from turnout.metadata.errors import ConflictError, RequestError
from turnout.metadata.states import TaskState
from turnout.tasks import DAG

Ran = Callable[..., None]


def fork() -> DAG:
    return graph("d", {"a": [], "b": ["a"], "slow": [], "waits": ["slow"]}, task={"retries": 1})


def nothing_begins(control: Control) -> bool:
    decided = control.decide()
    return (control.start(), decided.moved, list(control.queue().messages)) == (0, 0, [])


def test_what_runs_fails_what_has_not_begun_is_skipped_and_nothing_begins_any_more(
    control: Control, person: Person
) -> None:
    run = control.prepare(fork())
    worker = control.worker()
    messages = {message.task_id: message for message in control.queue().messages}
    (held,) = control.claim([messages["slow"]], worker)

    changes = person.cancel_run()

    assert [(change.state, change.new_state) for change in changes.dag_runs] == [("running", "failed")]
    assert control.run_state(run) == "failed"
    assert control.states(run) == {"a": "skipped", "b": "skipped", "slow": "failed", "waits": "skipped"}
    assert control.claim([messages["a"]], worker) == []
    assert control.finish([held.key]) == []
    assert nothing_begins(control)
    assert control.sql("SELECT task_id, outcome, cause FROM task_instance ORDER BY 1") == [
        ("a", "cancelled", "cancelled"),
        ("b", None, "cancelled"),
        ("slow", "cancelled", "cancelled"),
        ("waits", None, "cancelled"),
    ]
    assert control.sql("SELECT ended_at IS NOT NULL FROM dag_run") == [True]
    assert control.sql("SELECT action FROM audit_log") == ["run.cancel"]


@pytest.mark.parametrize("change", ["is_paused = true", "is_active = false"])
def test_a_run_of_a_dag_that_is_paused_or_gone_can_be_cancelled(control: Control, person: Person, change: str) -> None:
    control.declare(fork())
    run = control.insert_run("d")
    control.sql(f"UPDATE dag SET {change}")  # noqa: S608
    person.cancel_run()
    assert control.run_state(run) == "failed"
    assert nothing_begins(control)


def test_a_retry_that_waits_is_not_made(control: Control, person: Person) -> None:
    run = control.prepare(fork())
    held = hold(control)
    control.finish([attempt.key for attempt in held], TaskState.UP_FOR_RETRY, retry_delay_s=0)
    person.cancel_run()
    assert control.states(run) == {"a": "failed", "b": "skipped", "slow": "failed", "waits": "skipped"}
    assert nothing_begins(control)


def test_a_run_that_has_ended_cannot_be_cancelled(control: Control, person: Person, ran: Ran) -> None:
    control.prepare(fork())
    ran()
    with pytest.raises(ConflictError, match="Run run of DAG d has ended already: success"):
        person.cancel_run()


def test_of_several_runs_those_are_cancelled_that_have_not_ended(control: Control, person: Person, ran: Ran) -> None:
    control.prepare(fork(), "old")
    ran()
    control.insert_run("d", "new")
    dry = person.cancel_run("new", past=True, dry=True)
    assert [change.dag_run_id for change in dry.dag_runs] == ["new"]
    person.cancel_run("new", past=True)
    assert control.sql("SELECT run_id, state FROM dag_run ORDER BY 1") == [("new", "failed"), ("old", "success")]


def test_a_cancelled_task_fails_without_a_retry_and_its_run_goes_on(control: Control, person: Person) -> None:
    run = control.prepare(fork())
    worker = control.worker()
    held = control.claim(control.queue().messages, worker)
    assert changed(person.cancel("slow")) == {"slow": "failed"}
    assert control.finish([attempt.key for attempt in held]) == [a.key for a in held if a.task_id == "a"]
    control.decide()
    assert control.states(run) == {"a": "success", "b": "scheduled", "slow": "failed", "waits": "upstream_failed"}
    assert control.sql("SELECT outcome, cause, error FROM task_instance WHERE task_id = 'slow'") == [
        ("cancelled", "cancelled", "Cancelled by ada.")
    ]


def test_a_task_that_has_ended_is_not_cancelled(control: Control, person: Person, ran: Ran) -> None:
    control.prepare(fork())
    ran()
    assert not person.cancel("a")
    with pytest.raises(RequestError, match="Name the tasks to cancel"):
        person.cancel()


def test_a_cancelled_run_can_be_cleared(control: Control, person: Person, ran: Ran) -> None:
    run = control.prepare(fork())
    person.cancel_run()
    person.clear()
    ran()
    assert control.run_state(run) == "success"
