"""Deleting: runs, or a DAG with its history; nothing that belongs to them is left, and nothing else goes."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.control import Control, graph
from tests.integration.changes.conftest import Person, hold
from turnout.metadata.errors import ConflictError, NotFoundError
from turnout.metadata.states import TaskState
from turnout.tasks import DAG

Ran = Callable[..., None]
TABLES = ("dag_run", "task_instance", "task_attempt", "xcom", "wakeup")


def pair() -> DAG:
    return graph("d", {"a": [], "b": ["a"]})


def counts(control: Control) -> dict[str, int]:
    return {table: control.sql(f"SELECT count(*) FROM {table}")[0] for table in TABLES}  # noqa: S608


def live_a_little(control: Control, run_id: str) -> None:
    """Start a run that has rows in every table."""
    control.insert_run("d", run_id)
    control.start()
    control.decide()
    (lost,) = hold(control, run_id)
    control.finish([lost.key], TaskState.SCHEDULED)
    (held,) = hold(control, run_id)
    control.finish([held.key], return_value="1")


def test_a_run_goes_with_all_that_belongs_to_it(control: Control, person: Person) -> None:
    control.declare(pair())
    live_a_little(control, "stays")
    control.decide()
    before = counts(control)
    live_a_little(control, "goes")
    assert all(counts(control)[table] > before[table] for table in TABLES)
    person.cancel_run("goes")
    deleted = person.delete_run("goes")
    assert (deleted.dag_run_ids, deleted.task_instances) == (["goes"], 2)
    assert counts(control) == before
    assert control.sql("SELECT run_id FROM dag_run") == ["stays"]
    assert control.sql(
        "SELECT action, run_id, detail ->> 'task_instances' FROM audit_log ORDER BY id DESC LIMIT 1"
    ) == [("run.delete", "goes", "2")]


def test_a_run_that_has_not_ended_is_deleted_only_by_force(control: Control, person: Person) -> None:
    control.prepare(pair())
    held = hold(control)
    with pytest.raises(ConflictError, match="Run run of DAG d is running: cancel first"):
        person.delete_run()
    assert person.delete_run(force=True).dag_run_ids == ["run"]
    assert counts(control) == dict.fromkeys(TABLES, 0)
    assert control.finish([attempt.key for attempt in held], return_value="1") == []
    assert control.sql("SELECT detail -> 'unfinished' FROM audit_log") == [["run"]]


def test_a_dry_run_deletes_nothing(control: Control, person: Person, ran: Ran) -> None:
    control.prepare(pair())
    ran()
    before = counts(control)
    assert person.delete_run(dry=True).task_instances == 2
    control.sql("UPDATE dag SET is_active = false")
    assert person.delete_dag(dry=True).dag_run_ids == ["run"]
    assert counts(control) == before


def test_a_dag_that_its_file_declares_is_not_deleted(control: Control, person: Person) -> None:
    control.declare(pair())
    with pytest.raises(ConflictError, match=r"DAG d is still declared by test\.py: take it out of there first"):
        person.delete_dag()


def test_a_dag_goes_with_its_versions_and_its_history_and_may_come_back(
    control: Control, person: Person, ran: Ran
) -> None:
    control.declare(graph("other", {"a": []}), pair())
    control.insert_run("other", "stays")
    control.insert_run("d")
    ran()
    control.declare(graph("d", {"new": []}))
    control.sql("UPDATE dag SET is_active = false WHERE dag_id = 'd'")
    assert person.delete_dag().task_instances == 2
    assert control.sql("SELECT dag_id FROM dag") == control.sql("SELECT dag_id FROM dag_version") == ["other"]
    assert control.sql("SELECT run_id FROM dag_run") == ["stays"]
    assert control.sql("SELECT action, dag_id FROM audit_log") == [("dag.delete", "d")]
    with pytest.raises(NotFoundError):
        person.delete_dag()
    control.declare(pair())
    assert control.sql("SELECT version_number FROM dag_version WHERE dag_id = 'd'") == [1]


def test_a_dag_whose_run_has_not_ended_is_deleted_only_by_force(control: Control, person: Person) -> None:
    control.prepare(pair(), "one")
    control.insert_run("d", "two")
    control.sql("UPDATE dag SET is_active = false")
    with pytest.raises(ConflictError, match="Run one of DAG d is running, and so are 1 more"):
        person.delete_dag()
    person.delete_dag(force=True)
    assert counts(control) == dict.fromkeys(TABLES, 0)


def test_the_next_run_waits_no_longer_for_one_that_is_gone(control: Control, person: Person, ran: Ran) -> None:
    control.declare(graph("d", {"a": []}, task={"depends_on_past": True}))
    for day in (1, 2):
        control.insert_run("d", f"day{day}", logical_date=datetime(2024, 1, day, tzinfo=UTC))
    ran(a=TaskState.FAILED)
    assert control.decide().moved == 0
    person.delete_run("day1")
    assert control.decide().moved == 1
