"""Files that change, move and go: what becomes of their DAGs and versions."""

import os

from tests.integration.processor.conftest import Database, Folder
from turnout.scheduler.processor.service import DagProcessor


def test_only_what_changed_is_parsed(folder: Folder, processor: DagProcessor) -> None:
    for name in ("a", "b", "c"):
        folder.write_dag(f"{name}.py", name)
    assert sorted(processor.run_once().parsed) == ["a.py", "b.py", "c.py"]
    assert processor.run_once().parsed == []

    folder.write_dag("b.py", "b", "schedule='@daily'")
    assert processor.run_once().parsed == ["b.py"]


def test_saving_a_file_unchanged_makes_no_version(folder: Folder, processor: DagProcessor, database: Database) -> None:
    path = folder.write_dag("a.py", "a")
    processor.run_once()
    (before,) = database.rows("SELECT parsed_at FROM dag")
    os.utime(path)

    done = processor.run_once()

    assert done.parsed == ["a.py"]
    assert done.changed == []
    assert database.versions("a") == [1]
    assert database.rows("SELECT parsed_at > :before FROM dag", before=before[0]) == [(True,)]


def test_the_order_of_sets_and_dicts_makes_no_version(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    source = """
        with DAG('a', schedule=None, tags={tags}, params={params}):
            BashOperator(task_id='t', bash_command='true', env={env})
    """
    folder.write("a.py", source.format(tags="{'x', 'y', 'z'}", params="{'p': 1, 'q': 2}", env="{'A': '1', 'B': '2'}"))
    processor.run_once()
    folder.write("a.py", source.format(tags="{'z', 'y', 'x'}", params="{'q': 2, 'p': 1}", env="{'B': '2', 'A': '1'}"))
    processor.run_once()

    assert database.versions("a") == [1]


def test_new_content_is_a_new_version_and_old_content_the_old_one(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    numbers = []
    for arguments in ("schedule=None", "schedule='@daily'", "schedule=None", "schedule='@hourly'"):
        folder.write_dag("a.py", "a", arguments)
        processor.run_once()
        numbers.append(database.current_version("a"))

    assert numbers == [1, 2, 1, 3]


def test_what_lists_show_follows_the_file(folder: Folder, processor: DagProcessor, database: Database) -> None:
    folder.write_dag("sub/a.py", "a", "schedule=None, tags=['x'], description='one', max_active_runs=3")
    processor.run_once()
    facts = "SELECT file_path, tags, description, max_active_runs FROM dag"
    assert database.rows(facts) == [("sub/a.py", ["x"], "one", 3)]

    folder.write_dag("sub/a.py", "a", "schedule=None, tags=['y', 'z'], description='two', max_active_runs=4")
    processor.run_once()
    assert database.rows(facts) == [("sub/a.py", ["y", "z"], "two", 4)]


def test_the_dags_of_a_deleted_file_leave_the_list_and_come_back_with_it(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    path = folder.write_dag("a.py", "a")
    bad = folder.write("bad.py", "raise ValueError('dag')")
    processor.run_once()
    path.unlink()
    bad.unlink()

    assert processor.run_once().retired == ["a"]
    assert database.active() == []
    assert database.errors() == {}

    folder.write_dag("a.py", "a")
    assert processor.run_once().changed == ["a"]
    assert database.active() == ["a"]
    assert database.versions("a") == [1]


def test_a_file_deleted_while_no_processor_ran_is_noticed(processor: DagProcessor, database: Database) -> None:
    database.execute(
        "INSERT INTO dag (dag_id, is_paused, file_path, max_active_runs) VALUES ('old', false, 'old.py', 16)"
    )
    database.execute("INSERT INTO import_error (file_path, message) VALUES ('old_too.py', 'boo')")

    processor.run_once()

    assert database.active() == []
    assert database.errors() == {}


def test_a_renamed_file_keeps_its_dags_and_their_versions(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    path = folder.write_dag("old.py", "a")
    processor.run_once()
    path.rename(folder.path / "new.py")
    processor.run_once()

    assert database.rows("SELECT file_path, is_active FROM dag") == [("new.py", True)]
    assert database.versions("a") == [1]
    assert database.errors() == {}


def test_a_dag_that_its_file_declares_no_longer_leaves_the_list(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    folder.write_dag("a.py", "a", tail="DAG('b', schedule=None)\n")
    processor.run_once()
    assert database.active() == ["a", "b"]

    folder.write_dag("a.py", "a")
    assert processor.run_once().retired == ["b"]
    assert database.active() == ["a"]

    (folder.path / "a.py").write_text("nothing = 1\n")
    assert processor.run_once().retired == ["a"]


def test_a_change_of_an_imported_module_parses_the_files_that_import_it(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    folder.write_dag("other.py", "other")
    (folder.path / "shared.py").write_text("SCHEDULE = '@daily'\n")
    folder.write("a.py", "import shared\nDAG('a', schedule=shared.SCHEDULE)")
    processor.run_once()
    (folder.path / "shared.py").write_text("SCHEDULE = '@hourly'\n")

    assert sorted(processor.run_once().parsed) == ["a.py", "shared.py"]
    assert database.current_version("a") == 2


def test_a_file_mends_when_the_module_that_it_lacked_appears(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    folder.write("a.py", "import shared\nDAG('a', schedule=None)")
    processor.run_once()
    assert "shared" in database.errors()["a.py"][1]

    (folder.path / "shared.py").write_text("")
    processor.run_once()

    assert database.errors() == {}
    assert database.active() == ["a"]


def test_a_file_that_changes_while_it_is_parsed_is_stored_as_it_is_afterwards(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    folder.write(
        "a.py",
        """
        import pathlib
        DAG('before', schedule=None)
        pathlib.Path(__file__).write_text("from turnout.tasks import DAG\\nDAG('after', schedule=None)\\n")
        """,
    )

    processor.run_once()

    assert database.rows("SELECT dag_id FROM dag") == [("after",)]


def test_linked_files_count_and_linked_folders_caches_hidden_and_other_files_do_not(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    elsewhere = folder.path.parent / "elsewhere"
    elsewhere.mkdir()
    Folder(elsewhere).write_dag("linked.py", "linked")
    (folder.path / "link.py").symlink_to(elsewhere / "linked.py")
    (folder.path / "links").symlink_to(elsewhere)
    for name in (".hidden.py", ".git/a.py", "__pycache__/a.py", "notes.txt", "a.pyc"):
        folder.write_dag(name, "hidden")
    folder.write_dag("deep/er/a.py", "a")

    assert sorted(processor.run_once().parsed) == ["deep/er/a.py", "link.py"]
    assert database.active() == ["a", "linked"]
