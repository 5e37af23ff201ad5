"""One DAG id in two files: the file that owns the DAG keeps it, and both are named to the other."""

from tests.integration.processor.conftest import Database, Folder
from turnout.scheduler.processor.service import DagProcessor


def test_the_second_file_gets_an_error_that_names_both(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    folder.write_dag("b.py", "x")
    processor.run_once()
    folder.write_dag("a.py", "x", "schedule='@daily'", tail="DAG('mine', schedule=None)\n")
    processor.run_once()

    assert database.rows("SELECT file_path FROM dag WHERE dag_id = 'x'") == [("b.py",)]
    assert database.versions("x") == [1]
    assert database.active() == ["mine", "x"]
    line, message = database.errors()["a.py"]
    assert message.startswith("DAG 'x' is declared in both b.py and a.py; the one in b.py counts.")
    assert line is None


def test_the_second_file_takes_over_when_the_first_is_deleted(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    first = folder.write_dag("a.py", "x")
    processor.run_once()
    folder.write_dag("b.py", "x", "schedule='@daily'")
    processor.run_once()
    assert list(database.errors()) == ["b.py"]

    first.unlink()
    processor.run_once()

    assert database.rows("SELECT file_path, is_active FROM dag") == [("b.py", True)]
    assert database.current_version("x") == 2
    assert database.errors() == {}


def test_a_dag_may_move_from_one_file_to_another(folder: Folder, processor: DagProcessor, database: Database) -> None:
    folder.write_dag("b.py", "x")
    folder.write_dag("a.py", "y")
    processor.run_once()
    folder.write_dag("b.py", "z")
    folder.write_dag("a.py", "y", tail="DAG('x', schedule=None)\n")
    processor.run_once()

    assert database.rows("SELECT dag_id, file_path FROM dag WHERE is_active ORDER BY dag_id") == [
        ("x", "a.py"),
        ("y", "a.py"),
        ("z", "b.py"),
    ]
    assert database.errors() == {}
