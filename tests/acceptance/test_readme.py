"""The README's commands, run as they stand there."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
Eventually = Callable[..., object]


def commands(heading: str) -> list[str]:
    """List the commands below a heading of the README."""
    section = README.split(f"{heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\$ (.+)$", section, re.MULTILINE)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a newcomer: a home folder, and `turnout` on the path."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TURNOUT_")}
    return own | {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def platform(environ: dict[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    dags = tmp_path / "turnout" / "dags"
    dags.mkdir(parents=True)
    snippet = re.search(r"```python\n(.+?)```", README, re.DOTALL)
    assert snippet
    (dags / "hello.py").write_text(snippet[1])
    with (tmp_path / "up.log").open("w") as log:
        started = subprocess.Popen(["turnout", "up"], env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    yield started
    started.kill()
    started.wait()


def run(command: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(shlex.split(command), env=environ, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_two_commands_for_a_fresh_machine_are_targets_that_demonstrate_and_test(environ: dict[str, str]) -> None:
    demo, test = commands("# Turnout")
    assert (demo, test) == ("make demo", "make test")
    planned = run(f"{demo} --dry-run --always-make", environ).stdout
    assert "-m venv" in planned
    assert ".venv/bin/turnout demo" in planned.splitlines()
    assert "-m pytest" in run(f"{test} --dry-run --always-make", environ).stdout
    assert test in (ROOT / ".ci" / "run").read_text().splitlines()


def test_the_first_dag_runs_and_every_command_shows_it(
    platform: subprocess.Popen[bytes], environ: dict[str, str], eventually: Eventually
) -> None:
    up, listing, *others = commands("## Your first DAG")
    assert up == "turnout up"
    eventually(lambda: "hello" in run(listing, environ).stdout)
    said = {}
    for command in others:
        ended = run(command, environ)
        assert ended.returncode == 0, (command, ended.stderr)
        said[command] = ended.stdout
    assert "42 trains came by" in said["turnout tasks logs hello first tell"]
    assert said["turnout tasks list hello first"].count("success") == 3
    family = psutil.Process(platform.pid).children(recursive=True)
    platform.send_signal(signal.SIGINT)
    assert platform.wait(60) == 0
    eventually(lambda: not any(member.is_running() for member in family))


def test_the_commands_for_own_servers_are_commands_with_such_options(environ: dict[str, str]) -> None:
    exported, rest = [], []
    for command in commands("## On your own servers"):
        (exported if command.startswith("export ") else rest).append(command)
    assert {line.split()[1].partition("=")[0] for line in exported} == {"TURNOUT_DATABASE_URL", "TURNOUT_BROKER_URL"}
    for command in rest:
        # With --help every option before it is parsed, and nothing starts.
        ended = run(f"{command} --help", environ)
        assert ended.returncode == 0, (command, ended.stderr)


def test_every_page_that_the_readme_names_is_there() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", README) if "://" not in link]
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []
