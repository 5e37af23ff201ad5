"""The file of a DAG is deleted or changed while a run of it is under way."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import rows
from tests.platform import Platform

Eventually = Callable[..., object]
LINE = """
import os
from datetime import timedelta

from actions import act

from turnout.tasks import DAG, task

with DAG("line", schedule=None, params={"ledger": os.devnull}, is_paused_upon_creation=False):
    task(task_id="one")(act)() >> task(task_id="two", retries=1, retry_delay=timedelta(milliseconds=50))(act)()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "dags"
    folder.mkdir()
    shutil.copy(rows.DAGS / "actions.py", folder)
    (folder / "line.py").write_text(LINE)
    return folder / "line.py"


@pytest.fixture
def run_id(platform: Platform, file: Path, eventually: Eventually) -> str:
    """A run whose first task runs, and waits for a file called gate."""
    variables = {"TURNOUT_DAGS_FOLDER": str(file.parent), "TURNOUT_PROCESSOR__SCAN_INTERVAL_S": "0.2"}
    for kind, *arguments in (("dag-processor",), ("scheduler",), ("worker", "-c", "2")):
        platform.start(kind, kind, *arguments, **variables)
    eventually(lambda: platform.scalar("SELECT is_active FROM dag"))
    run_id = platform.trigger("line", {"one": [f"wait_for:{platform.folder / 'gate'}"]})
    eventually(lambda: platform.ledger("start"))
    return run_id


def task(platform: Platform, task_id: str) -> dict[str, object]:
    (found,) = platform.rows("SELECT state, cause, error, try_number FROM task_instance WHERE task_id = :t", t=task_id)
    return found


def test_of_a_deleted_file_what_runs_finishes_and_the_rest_fails_with_the_reason(
    platform: Platform, file: Path, run_id: str, eventually: Eventually
) -> None:
    file.unlink()
    eventually(lambda: not platform.scalar("SELECT is_active FROM dag"))
    (platform.folder / "gate").touch()

    eventually(lambda: platform.run_state(run_id) == "failed")

    assert task(platform, "one")["state"] == "success"
    two = task(platform, "two")
    assert (two["state"], two["cause"], two["try_number"]) == ("failed", "error", 2)
    assert f"Cannot read {file}" in str(two["error"])


def test_a_file_that_comes_back_between_two_tries_costs_one_of_them(
    platform: Platform, file: Path, run_id: str, eventually: Eventually
) -> None:
    file.unlink()
    eventually(lambda: not platform.scalar("SELECT is_active FROM dag"))
    with platform.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE task_instance SET max_tries = 1000 WHERE task_id = 'two'")
    (platform.folder / "gate").touch()
    eventually(lambda: platform.scalar("SELECT try_number FROM task_instance WHERE task_id = 'two'") > 0)
    file.write_text(LINE)

    eventually(lambda: platform.run_state(run_id) == "success")
    eventually(lambda: platform.scalar("SELECT is_active FROM dag"))


def test_a_run_keeps_its_tasks_when_the_file_changes_and_one_that_the_file_lacks_fails_with_the_reason(
    platform: Platform, file: Path, run_id: str, eventually: Eventually
) -> None:
    before = platform.scalar("SELECT current_version_id FROM dag")
    file.write_text(LINE.replace('"two"', '"other"'))
    eventually(lambda: platform.scalar("SELECT current_version_id FROM dag") != before)
    (platform.folder / "gate").touch()

    eventually(lambda: platform.run_state(run_id) == "failed")

    assert platform.states(run_id) == Counter(success=1, failed=1)
    assert task(platform, "one")["state"] == "success"
    two = task(platform, "two")
    assert two["state"] == "failed"
    assert "two" in str(two["error"])
    assert platform.scalar("SELECT dag_version_id FROM dag_run") == before
