"""DAG files that do what they must not: one clear message each, and every other DAG goes on."""

import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.integration.processor.conftest import Database, Folder
from turnout.scheduler.processor.service import DagProcessor

GOOD = "with DAG('good', schedule=None):\n    EmptyOperator(task_id='t')\n"


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("raise ValueError('no such table')", 2, "ValueError: no such table"),
        ("import sys\nsys.exit(3)", 3, "sys.exit(3)"),
        ("import os\nprint('bye')\nos._exit(7)", None, "ended its process with exit code 7"),
        ("import os\nos._exit(0)", None, "ended its process with exit code 0"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", None, "was killed by SIGKILL"),
        ("import ctypes\n\nctypes.string_at(0)", 4, "was killed by SIGSEGV"),
        ("with DAG('d', schedule=None)\n    pass", 2, "SyntaxError"),
        (
            "with DAG('d', schedule=None):\n    a, b = (EmptyOperator(task_id=t) for t in 'ab')\n    a >> b >> a",
            2,
            "cycle",
        ),
        (
            "with DAG('d', schedule=None):\n    EmptyOperator(task_id='a')\n    EmptyOperator(task_id='a')",
            4,
            "task ids are unique",
        ),
        ("DAG('d', schedule=None)\nDAG('d', schedule=None)", 3, "declared twice"),
        ("import no_such_module_here", 2, "no_such_module_here"),
        ("raise KeyboardInterrupt", None, "KeyboardInterrupt"),
        ("from turnout.tasks import mask_secret\nmask_secret('open-sesame')\n1 / {}['open-sesame']", 4, "'***'"),
    ],
    ids=[
        "raises",
        "sys.exit",
        "os._exit",
        "os._exit(0)",
        "killed",
        "segfault",
        "syntax",
        "cycle",
        "task ids",
        "dag ids",
        "import",
        "interrupt",
        "secret",
    ],
)
def test_a_bad_file_gets_one_clear_line_and_hides_no_other(
    folder: Folder, processor: DagProcessor, database: Database, *, source: str, line: int | None, words: str
) -> None:
    folder.write("bad.py", source)
    folder.write("good.py", GOOD)

    processor.run_once()

    assert database.active() == ["good"]
    assert list(database.errors()) == ["bad.py"]
    found_line, message = database.errors()["bad.py"]
    assert words in message
    assert found_line == line
    assert "\n" not in message
    assert "Traceback" not in message


def test_a_file_that_exits_is_quoted_with_its_last_words(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    folder.write("bad.py", "import os\nprint('the licence has expired', flush=True)\nos._exit(7)  # dag")

    processor.run_once()

    assert database.errors()["bad.py"][1].endswith("Its last output: the licence has expired")


def test_a_file_that_hangs_is_stopped_and_the_line_is_named(
    folder: Folder, make_processor: Callable[..., DagProcessor], database: Database
) -> None:
    folder.write("hang.py", "import time\n\n\nwhile True:\n    time.sleep(1)  # dag")
    folder.write("good.py", GOOD)

    make_processor(processor={"import_timeout_s": 1, "parallel": 1}).run_once()

    assert database.active() == ["good"]
    line, message = database.errors()["hang.py"]
    assert line == 6
    assert message.startswith("hang.py takes longer than 1 s to import")


def test_a_process_that_became_another_program_is_stopped_too(
    folder: Folder, make_processor: Callable[..., DagProcessor], database: Database
) -> None:
    folder.write("hang.py", "import os\nos.execvp('sleep', ['sleep', '600'])  # dag")

    make_processor(processor={"import_timeout_s": 0.5}).run_once()

    assert "takes longer than 0.5 s" in database.errors()["hang.py"][1]


def test_what_a_file_started_in_the_background_ends_with_its_parse(
    folder: Folder, processor: DagProcessor, database: Database, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    folder.write(
        "good.py",
        "import pathlib, subprocess\npid = subprocess.Popen(['sleep', '600']).pid\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(pid))\n" + GOOD,
    )

    processor.run_once()

    pid = int(pid_file.read_text())
    assert database.active() == ["good"]
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_file_may_print_as_much_as_it_likes(folder: Folder, processor: DagProcessor, database: Database) -> None:
    folder.write(
        "noisy.py",
        "import os, sys\nfor _ in range(50):\n    print('{' * 100_000)\n    print('x' * 1000, file=sys.stderr)\n"
        "os.system('echo from a shell')\n" + GOOD,
    )

    processor.run_once()

    assert database.active() == ["good"]
    assert database.errors() == {}


def test_a_file_that_closes_everything_is_an_error_of_its_own(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    folder.write("closes.py", "import os\nos.closerange(0, 100)\n" + GOOD)
    folder.write_dag("other.py", "other")

    processor.run_once()

    assert database.active() == ["other"]
    assert "ended its process" in database.errors()["closes.py"][1]


def test_a_file_reads_nothing_from_standard_input(folder: Folder, processor: DagProcessor, database: Database) -> None:
    folder.write("asks.py", "input('which dag? ')")

    processor.run_once()

    assert database.errors()["asks.py"] == (2, "EOFError: EOF when reading a line")


def test_ten_thousand_tasks_are_stored(folder: Folder, processor: DagProcessor, database: Database) -> None:
    folder.write(
        "big.py", "with DAG('big', schedule=None):\n    for i in range(10_000):\n        EmptyOperator(task_id=f't{i}')"
    )
    folder.write_dag("small.py", "small")

    processor.run_once()

    assert database.active() == ["big", "small"]
    count = "SELECT count(*) FROM dag_version, jsonb_object_keys(content -> 'tasks') WHERE dag_id = 'big'"
    assert database.rows(count) == [(10_000,)]


def test_messages_may_hold_any_characters(folder: Folder, processor: DagProcessor, database: Database) -> None:
    folder.write("odd.py", r"raise ValueError('nul \x00 and half \ud800 of a dag')")

    processor.run_once()

    assert database.errors()["odd.py"] == (2, "ValueError: nul and half ? of a dag")


def test_what_the_database_refuses_is_an_error_of_the_file_alone(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    database.execute("ALTER TABLE dag ADD CHECK (dag_id <> 'refused')")
    folder.write_dag("refused.py", "refused")
    folder.write_dag("other.py", "other")

    processor.run_once()

    assert database.active() == ["other"]
    assert "refused.py cannot be stored" in database.errors()["refused.py"][1]


def test_the_last_good_version_of_a_broken_file_stays(
    folder: Folder, processor: DagProcessor, database: Database
) -> None:
    folder.write_dag("a.py", "a")
    processor.run_once()
    folder.write_dag("a.py", "a", tail="raise RuntimeError('half done')\n")
    processor.run_once()

    assert database.active() == ["a"]
    assert database.versions("a") == [1]
    assert database.errors()["a.py"][1] == "RuntimeError: half done"

    folder.write_dag("a.py", "a", "schedule='@daily'")
    processor.run_once()

    assert database.errors() == {}
    assert database.current_version("a") == 2


def test_an_error_is_replaced_by_the_next_one(folder: Folder, processor: DagProcessor, database: Database) -> None:
    folder.write("a.py", "raise ValueError('first dag')")
    processor.run_once()
    folder.write("a.py", "\nraise ValueError('second dag')")
    processor.run_once()

    assert database.errors() == {"a.py": (3, "ValueError: second dag")}


def test_dag_files_do_not_see_where_the_database_and_the_broker_are(
    folder: Folder, processor: DagProcessor, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("TURNOUT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TURNOUT_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("TURNOUT_BROKER_URL", "redis://secret")
    monkeypatch.setenv("TURNOUT_TEST_CITY", "Bern")
    folder.write("env.py", "import os\nraise ValueError(f'dag {sorted(n for n in os.environ if \"TURNOUT\" in n)}')")

    processor.run_once()

    assert database.errors()["env.py"][1] == "ValueError: dag ['TURNOUT_TEST_CITY']"
