"""A run or a DAG that cannot be dealt with stops itself only."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError
from structlog.testing import capture_logs

from tests import rows
from tests.control import BATCH, Control, graph
from turnout.metadata import wakeups
from turnout.metadata.engine import transact
from turnout.metadata.errors import DatabaseUnavailableError
from turnout.scheduler.create_runs import create_due_runs
from turnout.scheduler.decide import Decided, decide
from turnout.scheduler.guard import Guard
from turnout.scheduler.queue import Queued, queue_ready
from turnout.scheduler.start_runs import start_runs

LINE = {"a": [], "b": ["a"]}


class Clock:
    """A clock that stands still until it is told the time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("turnout.scheduler.guard.time", clock)
    return clock


def guarded(control: Control, guard: Guard) -> Decided:
    return guard.transact(control.do, lambda c, each: decide(c, control.versions, BATCH, each))


def three_runs(control: Control) -> list[int]:
    control.declare(*(graph(name, LINE) for name in ("d0", "d1", "d2")))
    runs = [control.insert_run(f"d{number}") for number in range(3)]
    control.start()
    return runs


def spoil(control: Control, dag_id: str, change: str) -> None:
    """Change the content of a DAG's version behind everyone's back."""
    control.sql(f"UPDATE dag_version SET content = {change} WHERE dag_id = :dag_id", dag_id=dag_id)  # noqa: S608


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize(
    "change",
    ["jsonb_set(content, '{tasks,a,trigger_rule}', '\"nonsense\"')", "content - 'tasks'"],
    ids=["rule", "content"],
)
def test_a_run_that_our_code_cannot_decide_for_stops_itself_only(control: Control, bad: int, change: str) -> None:
    runs = three_runs(control)
    spoil(control, f"d{bad}", change)
    with capture_logs() as logs:
        done = guarded(control, Guard())
    assert done.runs == 2
    assert [control.states(run)["a"] for run in runs] == [
        "none" if number == bad else "scheduled" for number in range(3)
    ]
    (refused,) = (entry for entry in logs if entry["event"] == "step.refused")
    assert (refused["dag_id"], refused["run_id"]) == (f"d{bad}", "run")


def test_a_run_whose_rows_the_database_refuses_stops_itself_only(control: Control) -> None:
    runs = three_runs(control)
    control.sql("ALTER TABLE task_instance ADD CONSTRAINT odd CHECK (dag_id <> 'd1' OR state = 'none')")
    with pytest.raises(DBAPIError), control.engine.begin() as connection:
        decide(connection, control.versions, BATCH)
    guarded(control, Guard())
    assert [control.states(run)["a"] for run in runs] == ["scheduled", "none", "scheduled"]


def test_a_dag_whose_runs_the_database_cannot_start_stops_itself_only(control: Control) -> None:
    control.declare(*(graph(name, LINE) for name in ("d0", "d1", "d2")))
    runs = [control.insert_run(f"d{number}") for number in range(3)]
    spoil(control, "d1", "jsonb_set(content, '{tasks,a,retries}', '4000000000')")
    guard = Guard()
    for _ in range(2):
        guard.transact(control.do, lambda c, each: start_runs(c, BATCH, each))
    assert [control.run_state(run) for run in runs] == ["running", "queued", "running"]
    assert control.sql("SELECT count(*) FROM task_instance GROUP BY dag_id") == [2, 2]


def test_a_dag_whose_runs_the_database_refuses_to_create_stops_itself_only(control: Control) -> None:
    names = ["d0", "d1", "d2"]
    control.declare(
        *(graph(name, LINE, schedule="@daily", start_date=datetime(2013, 1, 1, tzinfo=UTC)) for name in names)
    )
    control.sql("UPDATE dag SET next_run_after = now()")
    control.sql("ALTER TABLE dag_run ADD CONSTRAINT odd CHECK (dag_id <> 'd1')")
    created = Guard().transact(control.do, lambda c, each: create_due_runs(c, BATCH, each))
    assert created == 2
    assert control.sql("SELECT dag_id FROM dag_run ORDER BY dag_id") == ["d0", "d2"]


def queue_guarded(control: Control, guard: Guard, limit: int = BATCH) -> Queued:
    return guard.transact(control.do, lambda c, each: queue_ready(c, control.scheduler_id, limit, each=each))


def test_a_task_instance_that_the_database_refuses_to_queue_keeps_no_slot_from_the_others(control: Control) -> None:
    control.worker(slots=1)
    control.do(lambda c: rows.insert_pool(c, "narrow", 1))
    control.prepare(graph("d0", {"a": []}, task={"pool": "narrow"}))
    control.prepare(graph("d1", {"a": []}, task={"pool": "narrow", "priority_weight": 9}))
    control.sql("ALTER TABLE task_instance ADD CONSTRAINT odd CHECK (dag_id <> 'd1' OR state <> 'queued')")
    guard = Guard()
    with capture_logs() as logs:
        first = queue_guarded(control, guard)
    assert (first.messages, first.is_contended) == ([], True)
    (refused,) = (entry for entry in logs if entry["event"] == "step.refused")
    assert (refused["dag_id"], refused["task_id"]) == ("d1", "a")
    assert [message.dag_id for message in queue_guarded(control, guard).messages] == ["d0"]
    (trouble,) = guard.left_alone.troubles()
    assert (trouble.what, trouble.where["dag_id"]) == ("refused", "d1")


def test_of_a_batch_only_those_are_not_queued_that_the_database_refuses(control: Control, clock: Clock) -> None:
    control.worker(slots=20)
    control.prepare(graph("d", {f"t{number}": [] for number in range(9)}))
    control.sql("ALTER TABLE task_instance ADD CONSTRAINT odd CHECK (task_id NOT IN ('t3', 't7') OR state <> 'queued')")
    guard = Guard()
    assert sorted(message.task_id for message in queue_guarded(control, guard).messages) == [
        f"t{number}" for number in range(9) if number not in {3, 7}
    ]
    control.sql("ALTER TABLE task_instance DROP CONSTRAINT odd")
    assert queue_guarded(control, guard).messages == []
    clock.now += 31
    assert sorted(message.task_id for message in queue_guarded(control, guard).messages) == ["t3", "t7"]


def test_what_was_refused_is_left_alone_for_a_while_and_then_tried_again(control: Control, clock: Clock) -> None:
    guard, runs = Guard(), three_runs(control)
    control.sql("ALTER TABLE task_instance ADD CONSTRAINT odd CHECK (dag_id <> 'd1' OR state = 'none')")
    guarded(control, guard)
    with capture_logs() as logs:
        control.do(wakeups.leave_for_active_runs)
        guarded(control, guard)
    assert logs == []
    control.sql("ALTER TABLE task_instance DROP CONSTRAINT odd")
    clock.now += 31
    control.do(wakeups.leave_for_active_runs)
    guarded(control, guard)
    assert control.states(runs[1])["a"] == "scheduled"


def test_a_database_that_is_away_is_nobodys_fault(control: Control) -> None:
    tries = []

    def away(_: Any, _each: Any) -> None:
        tries.append(1)
        raise DatabaseUnavailableError

    with pytest.raises(DatabaseUnavailableError):
        Guard().transact(control.do, away)
    assert tries == [1]


def test_a_conflict_with_another_transaction_is_nobodys_fault_either(control: Control) -> None:
    tries = []

    def work(items: Any) -> str:
        tries.append(items)
        if len(tries) == 1:
            raise ValueError
        if len(tries) == 2:
            connection.exec_driver_sql("DO $$ BEGIN RAISE deadlock_detected; END $$")
        return "done"

    connection: Any = None

    def step(c: Any, each: Any) -> Any:
        nonlocal connection
        connection = c
        return each(["x"], work, lambda item: {"dag_id": item})

    assert Guard().transact(lambda s: transact(control.engine, s), step) == ["done"]
    assert tries == [["x"]] * 3
