"""Marking: task instances and runs become what a person says, and what waits goes on from there."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.control import Control, graph
from tests.integration.changes.conftest import Person, changed, hold
from turnout.metadata.errors import RequestError
from turnout.metadata.states import RunState, TaskState
from turnout.tasks import DAG

Ran = Callable[..., None]
SUCCESS, FAILED, SKIPPED = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED


def chain() -> DAG:
    return graph("d", {"a": [], "b": ["a"], "c": ["b"]}, task={"retries": 2})


def attempt(control: Control, task_id: str) -> list[object]:
    return control.sql(
        "SELECT outcome, cause, error, ended_at IS NOT NULL FROM task_instance WHERE task_id = :task_id",
        task_id=task_id,
    )


@pytest.mark.parametrize(
    ("state", "next_state"), [(SUCCESS, "scheduled"), (SKIPPED, "skipped"), (FAILED, "upstream_failed")]
)
def test_what_waits_for_a_marked_task_goes_on(
    control: Control, person: Person, state: TaskState, next_state: str
) -> None:
    run = control.prepare(chain())
    assert changed(person.mark(state, "a")) == {"a": state}
    control.decide()
    assert control.states(run)["b"] == next_state


@pytest.mark.parametrize("state", [SUCCESS, FAILED, SKIPPED])
def test_an_attempt_that_runs_is_cancelled_and_its_outcome_refused(
    control: Control, person: Person, state: TaskState
) -> None:
    run = control.prepare(chain())
    (held,) = hold(control)
    person.mark(state, "a")
    assert attempt(control, "a") == [("cancelled", "marked", "Marked by ada.", True)]
    assert control.finish([held.key]) == []
    assert control.states(run)["a"] == state


def test_an_attempt_that_had_ended_keeps_its_outcome(control: Control, person: Person) -> None:
    control.prepare(chain())
    (held,) = hold(control)
    control.finish([held.key], TaskState.UP_FOR_RETRY, cause="error", error="no", retry_delay_s=3600)
    (ended_at,) = control.sql("SELECT ended_at FROM task_instance WHERE task_id = 'a'")
    person.mark(SUCCESS, "a")
    assert attempt(control, "a") == [("failed", "error", "no", True)]
    assert control.sql("SELECT ended_at, next_try_at FROM task_instance WHERE task_id = 'a'") == [(ended_at, None)]


def test_a_task_that_never_ran_says_why_it_is_as_it_is(control: Control, person: Person) -> None:
    control.prepare(chain())
    person.mark(FAILED, "c")
    assert attempt(control, "c") == [(None, "marked", "Marked by ada.", True)]


def test_a_failed_task_that_is_marked_success_lets_its_finished_run_go_on(
    control: Control, person: Person, ran: Ran
) -> None:
    run = control.prepare(chain())
    ran(a=FAILED)
    assert control.run_state(run) == "failed"
    changes = person.mark(SUCCESS, "a")
    assert changed(changes) == {"a": "success", "b": "none", "c": "none"}
    assert [change.new_state for change in changes.dag_runs] == ["queued"]
    ran()
    assert control.run_state(run) == "success"
    assert control.sql("SELECT sum(try_number) FROM task_instance") == [3]


@pytest.mark.parametrize(("first", "end"), [(FAILED, SUCCESS), (SUCCESS, FAILED)])
def test_the_end_of_a_run_follows_from_its_marked_tasks(
    control: Control, person: Person, ran: Ran, first: TaskState, end: TaskState
) -> None:
    run = control.prepare(chain())
    ran(c=first)
    person.mark(end, "c")
    ran()
    assert control.run_state(run) == end
    assert control.states(run) == {"a": "success", "b": "success", "c": end}


def test_a_mark_that_changes_no_end_leaves_a_finished_run_alone(control: Control, person: Person, ran: Ran) -> None:
    control.prepare(chain())
    ran()
    assert person.mark(SKIPPED, "a").dag_runs == []


def test_a_run_of_a_dag_that_no_file_declares_is_marked_and_does_not_start_again(
    control: Control, person: Person, ran: Ran
) -> None:
    run = control.prepare(chain())
    ran(a=FAILED)
    control.sql("UPDATE dag SET is_active = false")
    changes = person.mark(SUCCESS, "a")
    assert (changed(changes), changes.dag_runs) == ({"a": "success"}, [])
    assert control.run_state(run) == "failed"


def test_upstream_downstream_past_and_future_are_marked_too(control: Control, person: Person) -> None:
    control.declare(chain())
    for day in (1, 2, 3):
        control.insert_run("d", f"day{day}", logical_date=datetime(2024, 1, day, tzinfo=UTC))
    control.start()
    assert set(changed(person.mark(SUCCESS, "b", run="day2", downstream=True, dry=True))) == {"b", "c"}
    assert set(changed(person.mark(SUCCESS, "b", run="day2", upstream=True, dry=True))) == {"a", "b"}
    past = person.mark(SUCCESS, "b", run="day2", past=True, dry=True).task_instances
    future = person.mark(SUCCESS, "b", run="day2", future=True, dry=True).task_instances
    assert [change.dag_run_id for change in past] == ["day1", "day2"]
    assert [change.dag_run_id for change in future] == ["day2", "day3"]
    assert set(control.sql("SELECT state FROM task_instance")) == {"none"}


def test_only_a_task_can_be_marked_and_only_with_an_end(control: Control, person: Person) -> None:
    control.prepare(chain())
    with pytest.raises(RequestError, match="can be marked success, failed, skipped; not running"):
        person.mark(TaskState.RUNNING, "a")
    with pytest.raises(RequestError, match="Name the tasks to mark"):
        person.mark(SUCCESS)
    with pytest.raises(RequestError, match="can be marked success or failed; not queued"):
        person.mark_run(RunState.QUEUED)


def test_all_of_a_run_that_is_marked_success_is_success(control: Control, person: Person, ran: Ran) -> None:
    run = control.prepare(chain())
    ran(a=FAILED)
    changes = person.mark_run(RunState.SUCCESS)
    assert changed(changes) == dict.fromkeys(("a", "b", "c"), "success")
    assert (control.run_state(run), set(control.states(run).values())) == ("success", {"success"})
    assert control.sql("SELECT action, detail -> 'dag_runs' FROM audit_log") == [
        ("run.mark_success", {"failed -> success": 1})
    ]


def test_what_runs_of_a_run_that_is_marked_failed_fails_and_the_rest_is_skipped(
    control: Control, person: Person
) -> None:
    run = control.prepare(chain())
    (held,) = hold(control)
    person.mark_run(RunState.FAILED)
    assert control.run_state(run) == "failed"
    assert control.states(run) == {"a": "failed", "b": "skipped", "c": "skipped"}
    assert attempt(control, "a") == [("cancelled", "marked", "Marked by ada.", True)]
    assert control.finish([held.key]) == []


def test_the_tasks_of_a_finished_run_that_is_marked_failed_stay_as_they_are(
    control: Control, person: Person, ran: Ran
) -> None:
    run = control.prepare(chain())
    ran()
    (ended_at,) = control.sql("SELECT ended_at FROM dag_run")
    person.mark_run(RunState.FAILED)
    assert (control.run_state(run), set(control.states(run).values())) == ("failed", {"success"})
    assert control.sql("SELECT ended_at FROM dag_run") == [ended_at]


def test_a_run_that_is_marked_does_not_start(control: Control, person: Person) -> None:
    control.declare(chain())
    run = control.insert_run("d")
    person.mark_run(RunState.SUCCESS)
    assert control.start() == 0
    assert control.run_state(run) == "success"
    assert control.sql("SELECT ended_at IS NOT NULL FROM dag_run") == [True]


def test_the_next_run_learns_of_what_it_waited_for(control: Control, person: Person, ran: Ran) -> None:
    control.declare(graph("d", {"a": []}, task={"depends_on_past": True}))
    first, second = [
        control.insert_run("d", f"day{day}", logical_date=datetime(2024, 1, day, tzinfo=UTC)) for day in (1, 2)
    ]
    ran(a=FAILED)
    assert (control.states(first), control.states(second)) == ({"a": "failed"}, {"a": "none"})
    person.mark_run(RunState.SUCCESS, "day1")
    assert control.decide().moved == 1
    assert control.states(second) == {"a": "scheduled"}
