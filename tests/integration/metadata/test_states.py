"""The law of states, the database and the diagram in the docs say the same."""

import re
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tests.control import Control, graph
from turnout.metadata import decisions, runs
from turnout.metadata.errors import MetadataError
from turnout.metadata.states import ACTIVE, LAW, RUN_LAW, UNFINISHED, Cause, Outcome, RunState, TaskState, mermaid
from turnout.metadata.tables import sql_list

STATES_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "states.md"


def allowed(control: Control, constraint: str) -> set[str]:
    (definition,) = control.sql("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = :n", n=constraint)
    return set(re.findall(r"'(\w+)'", definition))


def indexed(control: Control, index: str) -> set[str]:
    (definition,) = control.sql("SELECT pg_get_indexdef(CAST(:name AS regclass))", name=index)
    return set(re.findall(r"'(\w+)'", definition.partition(" WHERE ")[2]))


def test_the_database_knows_the_states_of_the_law_and_no_others(control: Control) -> None:
    assert allowed(control, "ck_task_instance_state_known") == set(TaskState)
    assert allowed(control, "ck_dag_run_state_known") == set(RunState)
    assert allowed(control, "ck_task_instance_outcome_known") == set(Outcome)
    assert allowed(control, "ck_task_attempt_outcome_known") == set(Outcome)


def test_the_partial_indexes_hold_the_states_that_they_are_for(control: Control) -> None:
    assert indexed(control, "ix_task_instance_unfinished") == UNFINISHED
    assert indexed(control, "ix_task_instance_active") == ACTIVE
    assert indexed(control, "ix_task_instance_scheduled") == {TaskState.SCHEDULED}
    assert indexed(control, "ix_task_instance_due") == {TaskState.UP_FOR_RETRY, TaskState.UP_FOR_RESCHEDULE}
    assert indexed(control, "ix_dag_run_active") == {RunState.QUEUED, RunState.RUNNING}


def test_statements_that_ask_for_what_is_unfinished_name_every_such_state() -> None:
    for statement in (decisions._UNFINISHED, runs._FINISH):
        assert f"state IN ({sql_list(UNFINISHED)})" in str(statement)


@pytest.mark.parametrize(
    "wrong",
    [
        "state = 'asleep'",
        "state = 'queued'",
        "attempt_id = gen_random_uuid(), state = 'running'",
        "state = 'up_for_retry'",
        "outcome = 'fine'",
        "pool_slots = 0",
    ],
)
def test_the_database_refuses_a_row_that_cannot_be(control: Control, wrong: str) -> None:
    control.declare(graph("d", {"a": []}))
    control.insert_run("d")
    control.start()
    control.sql("DROP TRIGGER law ON task_instance")
    with control.engine.connect() as connection, pytest.raises(DBAPIError, match="violates check constraint"):
        connection.execute(text(f"UPDATE task_instance SET {wrong}"))  # noqa: S608


def test_a_test_database_refuses_changes_that_the_law_does_not_know(control: Control) -> None:
    control.prepare(graph("d", {"a": []}))
    for table, state in (("task_instance", "up_for_retry"), ("dag_run", "queued")):
        with control.engine.connect() as connection, pytest.raises(DBAPIError, match=f"no law for {table}"):
            connection.execute(text(f"UPDATE {table} SET state = '{state}'"))  # noqa: S608
    with control.engine.connect() as connection, pytest.raises(DBAPIError, match="attempt_id of task_instance"):
        connection.execute(text("UPDATE task_instance SET attempt_id = gen_random_uuid()"))


@pytest.mark.parametrize(("before", "after"), [("scheduled", "success"), ("scheduled", "none")])
def test_a_test_database_leaves_to_a_person_what_only_a_person_may_do(
    control: Control, before: str, after: str
) -> None:
    control.prepare(graph("d", {"a": [], "b": ["a"]}))
    change = f"UPDATE task_instance SET state = '{after}' WHERE state = '{before}'"  # noqa: S608
    with pytest.raises(MetadataError, match=r"no law for task_instance .* by a process"):
        control.sql(change)
    control.sql_of_person(change)
    assert after in control.sql("SELECT state FROM task_instance")


def test_a_test_database_leaves_to_a_process_what_no_person_may_do(control: Control) -> None:
    control.declare(graph("d", {"a": []}))
    control.insert_run("d")
    with pytest.raises(MetadataError, match=r"no law for dag_run .* by a person: queued -> running"):
        control.sql_of_person("UPDATE dag_run SET state = 'running'")


def test_the_page_of_states_shows_the_law() -> None:
    page = STATES_PAGE.read_text()
    assert mermaid(LAW) in page
    assert mermaid(RUN_LAW) in page


def test_each_cause_that_a_statement_writes_is_a_cause() -> None:
    sources = "".join(path.read_text() for path in Path(runs.__file__).parent.glob("*.py"))
    assert set(re.findall(r"cause = '(\w+)'", sources)) <= set(Cause)
