"""The statements of DAGs, versions and import errors."""

import threading
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from turnout.metadata import dags
from turnout.metadata.dags import DeclaredDag, ImportProblem
from turnout.metadata.engine import transact
from turnout.metadata.planning import timing_of

CONTENT: dict[str, Any] = {
    "schedule": {"type": "none"},
    "start_date": "2013-01-01T00:00:00+00:00",
    "end_date": None,
    "catchup": "all",
    "jitter_s": None,
    "max_active_runs": 16,
    "max_active_tasks": 16,
    "tags": [],
    "description": None,
    "is_paused_upon_creation": None,
    "callbacks": [],
    "tasks": {},
}


def declared(dag_id: str = "a", content_hash: str = "h1", **changes: Any) -> DeclaredDag:
    return DeclaredDag(dag_id, content_hash, {**CONTENT, **changes})


def save(connection: Connection, dag: DeclaredDag, file: str = "a.py") -> None:
    dags.lock_store(connection)
    dags.save_dag(connection, file, dag, paused_at_creation=True)


def rows(connection: Connection, statement: str) -> list[Any]:
    return [tuple(row) for row in connection.execute(text(statement))]


def test_a_dag_is_known_with_what_its_next_run_depends_on(engine: Engine) -> None:
    with engine.begin() as connection:
        save(connection, declared())
        (known,) = dags.lock_known(connection, ["a", "b"]).values()

    assert (known.dag_id, known.file_path, known.is_active, known.content_hash) == ("a", "a.py", True, "h1")
    assert known.timing == timing_of(CONTENT)


def test_versions_count_up_by_dag_and_the_same_content_stays_one(engine: Engine) -> None:
    with engine.begin() as connection:
        for content_hash in ("h1", "h2", "h1", "h3"):
            save(connection, declared("a", content_hash))
        save(connection, declared("b", "h1"))
        versions = rows(connection, "SELECT dag_id, version_number, content_hash FROM dag_version ORDER BY 1, 2")
        current = rows(
            connection,
            "SELECT d.dag_id, v.content_hash FROM dag d JOIN dag_version v ON v.id = d.current_version_id ORDER BY 1",
        )

    assert versions == [("a", 1, "h1"), ("a", 2, "h2"), ("a", 3, "h3"), ("b", 1, "h1")]
    assert current == [("a", "h3"), ("b", "h1")]


def test_many_at_once_make_one_version(engine: Engine) -> None:
    start = threading.Barrier(3)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        start.wait()
        try:
            for round_ in range(10):
                dag = declared("a", f"h{(number + round_) % 5}")
                transact(engine, lambda connection, dag=dag: save(connection, dag))  # type: ignore[misc]
        except BaseException as error:  # noqa: BLE001  reported below
            failures.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    with engine.begin() as connection:
        assert rows(connection, "SELECT count(*), max(version_number) FROM dag_version") == [(5, 5)]


def test_a_locked_dag_is_passed_over_by_schedulers(engine: Engine) -> None:
    with engine.begin() as connection:
        save(connection, declared())
    with engine.begin() as connection, engine.begin() as scheduler:
        dags.lock_known(connection, ["a"])
        assert rows(scheduler, "SELECT dag_id FROM dag FOR NO KEY UPDATE SKIP LOCKED") == []
        # A run may still be triggered: its foreign key asks for less.
        assert rows(scheduler, "SELECT dag_id FROM dag FOR KEY SHARE SKIP LOCKED") == [("a",)]


@pytest.mark.parametrize(("declared_ids", "retired"), [((), ["a", "b"]), (("a",), ["b"]), (("a", "b", "c"), [])])
def test_only_what_a_file_declares_no_longer_is_retired(
    engine: Engine, declared_ids: tuple[str, ...], retired: list[str]
) -> None:
    with engine.begin() as connection:
        for dag_id, file in (("a", "a.py"), ("b", "a.py"), ("other", "other.py")):
            save(connection, declared(dag_id), file)

        assert sorted(dags.retire_undeclared(connection, "a.py", declared_ids)) == retired
        assert dags.retire_undeclared(connection, "a.py", declared_ids) == []
        inactive = rows(connection, "SELECT dag_id FROM dag WHERE NOT is_active ORDER BY 1")

    assert [dag_id for (dag_id,) in inactive] == retired


def test_files_leave_traces_until_they_are_retired(engine: Engine) -> None:
    with engine.begin() as connection:
        save(connection, declared("a"), "a.py")
        dags.save_import_error(connection, "b.py", ImportProblem("boo"))
        assert dags.files_with_traces(connection) == {"a.py", "b.py"}

        assert dags.retire_file(connection, "a.py") == ["a"]
        assert dags.retire_file(connection, "b.py") == []
        assert dags.files_with_traces(connection) == set()


def test_an_import_error_keeps_its_time_for_as_long_as_it_is_the_same(engine: Engine) -> None:
    def seen(problem: ImportProblem) -> tuple[Any, ...]:
        with engine.begin() as connection:
            dags.save_import_error(connection, "a.py", problem)
            (row,) = rows(connection, "SELECT message, line, at FROM import_error")
        return tuple(row)

    first = seen(ImportProblem("boo", None))
    assert seen(ImportProblem("boo", None)) == first
    moved = seen(ImportProblem("boo", 3))
    assert moved[:2] == ("boo", 3)
    assert moved[2] > first[2]
