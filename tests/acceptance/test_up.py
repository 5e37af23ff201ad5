"""`turnout up`: the whole platform from one command, with the embedded servers of a home of its own."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.home import Home

Eventually = Callable[..., Any]

HELLO = """
from turnout.tasks import BashOperator, EmptyOperator, dag, task


@dag(schedule=None, is_paused_upon_creation=False)
def hello():
    @task
    def ask():
        return {"answer": 42}

    @task
    def double(found):
        return found["answer"] * 2

    told = BashOperator(task_id="tell", bash_command="echo of {{ run_id }}")
    double(ask()) >> EmptyOperator(task_id="joint") >> told


hello()
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    yield home
    home.kill()


def family_of(platform: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(platform.pid).children(recursive=True)


def shows_credentials(process: psutil.Process) -> bool:
    """Whether every process of the same user could read them."""
    with suppress(psutil.Error):
        return bool(process.environ().get("TURNOUT_DATABASE_URL"))
    return False


def stop(platform: subprocess.Popen[str], eventually: Eventually) -> None:
    family = family_of(platform)
    platform.send_signal(signal.SIGINT)
    assert platform.wait(60) == 0
    eventually(lambda: not any(member.is_running() for member in family))


def test_a_run_goes_through_and_is_still_there_after_a_restart(home: Home, eventually: Eventually) -> None:
    (home.path / "dags" / "hello.py").write_text(HELLO)
    platform = home.up()
    eventually(lambda: [dag["dag_id"] for dag in home.json("dags", "list") or ()] == ["hello"])

    triggered = home.run("dags", "trigger", "hello", "--run-id", "first", "--wait")
    assert triggered.returncode == 0, triggered.stderr
    assert home.run("runs", "wait", "hello", "first").returncode == 0
    tasks = home.json("tasks", "list", "hello", "first")
    assert {task["task_id"]: task["state"] for task in tasks} == dict.fromkeys(
        ("ask", "double", "joint", "tell"), "success"
    )
    eventually(lambda: not [member for member in family_of(platform) if shows_credentials(member)])
    assert "of first" in home.run("tasks", "logs", "hello", "first", "tell").stdout
    assert len([row for row in home.json("schedulers", "list") if row["state"] == "alive"]) == 2
    stop(platform, eventually)

    platform = home.up("--schedulers", "1")
    runs = eventually(lambda: home.json("runs", "list", "hello"))
    assert [(run["dag_run_id"], run["state"]) for run in runs] == [("first", "success")]
    stop(platform, eventually)


def test_a_second_platform_on_the_same_home_is_refused_and_two_homes_live_side_by_side(
    home: Home, tmp_path: Path, eventually: Eventually
) -> None:
    home.up("--schedulers", "1")
    eventually(lambda: home.json("dags", "list") == [])
    other = Home(tmp_path / "other")
    neighbour = other.up("--schedulers", "1")
    try:
        eventually(lambda: other.json("dags", "list") == [])
        refused = home.run("up")
        assert refused.returncode == 1
        assert refused.stderr.startswith("Error: ")
        assert len(refused.stderr.splitlines()) == 1
        assert str(home.platforms[0].pid) in refused.stderr
    finally:
        stop(neighbour, eventually)
