"""The DAG processor as a service: threads, signals, outages, and several of it at once."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import make_url

from tests.conftest import Servers
from tests.integration.processor.conftest import Database, Folder
from turnout.config.settings import Settings
from turnout.metadata.errors import SchemaError
from turnout.scheduler.processor.service import DagProcessor

#: Listings so rare that only the watch can have noticed a change.
RARE = {"scan_interval_s": 3600, "import_timeout_s": 5}
Eventually = Callable[..., object]
COMMAND = [sys.executable, "-m", "turnout.cli.main", "dag-processor"]


@pytest.fixture
def run_command(settings: Settings) -> Iterator[Callable[[], "subprocess.Popen[bytes]"]]:
    started: list[subprocess.Popen[bytes]] = []
    assert settings.database_url
    environment = {
        **os.environ,
        "TURNOUT_HOME": str(settings.home),
        "TURNOUT_DAGS_FOLDER": str(settings.dags_path),
        "TURNOUT_DATABASE_URL": settings.database_url.get_secret_value(),
    }

    def run() -> "subprocess.Popen[bytes]":
        started.append(subprocess.Popen(COMMAND, env=environment, stderr=subprocess.PIPE))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def test_a_change_is_stored_without_waiting_for_a_listing(
    folder: Folder, make_processor: Callable[..., DagProcessor], database: Database, eventually: Eventually
) -> None:
    folder.write_dag("a.py", "a")
    make_processor(processor=RARE).start()
    eventually(lambda: database.active() == ["a"])

    folder.write_dag("new/b.py", "b")
    eventually(lambda: database.active() == ["a", "b"])
    folder.write_dag("a.py", "a2")
    eventually(lambda: database.active() == ["a2", "b"])
    (folder.path / "a.py").unlink()
    eventually(lambda: database.active() == ["b"])


def test_a_listing_finds_what_the_watch_missed(
    folder: Folder,
    make_processor: Callable[..., DagProcessor],
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    eventually: Eventually,
) -> None:
    monkeypatch.setattr("turnout.scheduler.processor.watch.FolderWatch.follow", lambda _: None)
    make_processor(processor={"scan_interval_s": 0.1}).start()
    folder.write_dag("a.py", "a")

    eventually(lambda: database.active() == ["a"])


def test_an_unchanged_file_is_parsed_again_when_its_interval_is_up(
    folder: Folder, make_processor: Callable[..., DagProcessor], database: Database, eventually: Eventually
) -> None:
    folder.write("a.py", "import time\nDAG(f'a{time.time_ns()}', schedule=None)")
    make_processor(processor={"reparse_interval_s": 0.1, **RARE}).start()

    eventually(lambda: len(database.rows("SELECT FROM dag")) >= 3)
    assert len(database.active()) == 1


def test_files_that_hang_delay_no_other_once_they_are_known(
    folder: Folder, make_processor: Callable[..., DagProcessor], database: Database, eventually: Eventually
) -> None:
    for name in ("h1", "h2", "h3"):
        folder.write(f"{name}.py", "while True: pass  # dag")
    processor = make_processor(processor={"import_timeout_s": 1, "parallel": 2, "reparse_interval_s": 0.1})
    processor.start()
    eventually(lambda: len(database.errors()) == 3)

    for number in range(5):
        folder.write_dag("a.py", f"a{number}")
        eventually(lambda name=f"a{number}": database.active() == [name])  # type: ignore[misc]


def test_a_missing_folder_is_waited_for(
    folder: Folder,
    make_processor: Callable[..., DagProcessor],
    database: Database,
    capsys: pytest.CaptureFixture[str],
    eventually: Eventually,
) -> None:
    database.execute(
        "INSERT INTO dag (dag_id, is_paused, file_path, max_active_runs) VALUES ('old', false, 'a.py', 16)"
    )
    folder.path.rmdir()
    processor = make_processor()
    for _ in range(3):
        processor.run_once()
    assert database.active() == ["old"]
    assert outages(capsys.readouterr().out, "DAGs folder") == 1

    processor.start()
    folder.write_dag("a.py", "a")
    eventually(lambda: database.active() == ["a"])


def outages(said: str, what: str) -> int:
    """Count how often the begin of an outage was said."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said)
    return len(re.findall(rf"outage\.began.* what='?{what}'?$", plain, re.MULTILINE))


def test_a_folder_that_is_replaced_is_watched_anew(
    folder: Folder, make_processor: Callable[..., DagProcessor], database: Database, eventually: Eventually
) -> None:
    folder.write_dag("a.py", "a")
    processor = make_processor(processor=RARE)
    processor.start()
    eventually(lambda: database.active() == ["a"])
    folder.path.rename(folder.path.with_name("old"))
    folder.write_dag("b.py", "b")
    processor._news.put(None)  # the one listing
    eventually(lambda: database.active() == ["b"])

    folder.write_dag("c.py", "c")
    eventually(lambda: database.active() == ["b", "c"])


def test_an_outage_of_the_database_is_said_once_and_survived(
    folder: Folder,
    make_processor: Callable[..., DagProcessor],
    database: Database,
    *,
    database_url: str,
    servers: Servers,
    capsys: pytest.CaptureFixture[str],
    eventually: Eventually,
) -> None:
    name = make_url(database_url).database
    make_processor(processor=RARE).start()
    folder.write_dag("a.py", "a")
    eventually(lambda: database.active() == ["a"])

    database.engine.dispose()
    servers.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    servers.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")  # noqa: S608
    folder.write_dag("b.py", "b")
    said = ""

    def is_said() -> bool:
        nonlocal said
        said += capsys.readouterr().out
        return outages(said, "database") > 0

    eventually(is_said)
    servers.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    eventually(lambda: database.active() == ["a", "b"])
    said += capsys.readouterr().out
    assert outages(said, "database") == 1
    assert "Traceback" not in said


def test_a_database_without_tables_is_refused_at_the_start(
    make_processor: Callable[..., DagProcessor], database: Database
) -> None:
    database.execute("DELETE FROM alembic_version")
    with pytest.raises(SchemaError, match="turnout db migrate"):
        make_processor().start()


def test_the_command_registers_works_and_leaves_cleanly_on_sigterm(
    folder: Folder,
    run_command: Callable[[], "subprocess.Popen[bytes]"],
    database: Database,
    tmp_path: Path,
    eventually: Eventually,
) -> None:
    pid_file = tmp_path / "pid"
    folder.write(
        "hang.py", f"import os, time\nopen({str(pid_file)!r}, 'w').write(f'{{os.getpid()}}.')\ntime.sleep(600)  # dag"
    )
    process = run_command()
    eventually(lambda: pid_file.exists() and pid_file.read_text().endswith("."))
    ((pid, state),) = database.rows("SELECT pid, state FROM process WHERE kind = 'dag_processor'")
    assert (pid, state) == (process.pid, "alive")

    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)

    assert process.returncode == 0, said.decode()
    assert database.rows("SELECT state FROM process WHERE kind = 'dag_processor'") == [("stopped",)]
    assert not psutil.pid_exists(int(pid_file.read_text()[:-1]))


def test_a_lost_lease_is_followed_by_a_new_term(
    make_processor: Callable[..., DagProcessor], database: Database, eventually: Eventually
) -> None:
    make_processor(scheduler={"lease_s": 0.3}).start()
    database.execute("UPDATE process SET state = 'dead', ended_at = now()")

    states = "SELECT state FROM process WHERE kind = 'dag_processor' ORDER BY id"
    eventually(lambda: database.rows(states) == [("dead",), ("alive",)])


def test_several_processors_store_the_same_folder_together(
    folder: Folder, make_processor: Callable[..., DagProcessor], database: Database
) -> None:
    for number in range(10):
        folder.write_dag(f"f{number}.py", f"d{number}")
        folder.write_dag(f"clash{number}.py", "x")
    processors = [make_processor() for _ in range(3)]
    threads = [threading.Thread(target=processor.run_once) for processor in processors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert database.active() == sorted([*(f"d{number}" for number in range(10)), "x"])
    assert len(database.errors()) == 9
    assert database.rows("SELECT max(version_number), count(*) FROM dag_version") == [(1, 11)]


def test_an_unchanged_folder_starts_no_process_and_writes_no_row(
    folder: Folder, make_processor: Callable[..., DagProcessor], database: Database
) -> None:
    for number in range(10):
        folder.write_dag(f"f{number}.py", f"d{number}")
    processor = make_processor()
    processor.run_once()
    spent = psutil.Process().cpu_times().children_user
    rows = "SELECT dag_id, xmin::text FROM dag UNION ALL SELECT dag_id, xmin::text FROM dag_version ORDER BY 1, 2"
    written = database.rows(rows)

    for _ in range(10):
        assert processor.run_once().parsed == []

    assert psutil.Process().cpu_times().children_user == spent
    assert database.rows(rows) == written
