"""The tutorial and the how-to pages, followed to the letter: files are written, commands run, outputs compared."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from turnout import tasks
from turnout.metadata.listings.explanations import Why

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCED = re.compile(r"```(python|console)\n(.*?)```", re.DOTALL)
#: These run until they are stopped: a terminal of their own.
LASTING = ("up", "scheduler", "dag-processor", "worker")
#: These change something, and are therefore given only once.
CHANGING = re.compile(
    r"turnout (dags (trigger|pause|unpause)|(tasks|runs) (clear|mark|cancel|delete)|pools set|db migrate"
    r"|workers (drain|undrain)|queues (pause|unpause))"
)
#: What differs from one time to another, and what stands for it in a comparison.
VARYING = (
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"\b\d+\.\d+\b", "NUMBER"),
    (r"\b(scheduler)-\d", r"\1-N"),
    (r"(Claimed by \S+ on) \S+:", r"\1 HOST:"),
    (r"\s+", " "),
)
Eventually = Callable[..., object]


class Reader:
    """Somebody who does what a page says."""

    def __init__(self, home: Path) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("TURNOUT_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.home = home
        self.environ = own | {"HOME": str(home), "PATH": path}
        self.terminals: list[subprocess.Popen[bytes]] = []

    def follow(self, page: str, eventually: Eventually, failing: tuple[str, ...] = ()) -> list[str]:
        """Do all of a page in order; return its commands."""
        commands = []
        text = (DOCS / page).read_text()
        for block in FENCED.finditer(text):
            if block[1] == "python":
                self.write(re.findall(r"`~/(\S+\.py)`", text[: block.start()])[-1], block[2])
                continue
            for command, shown in conversation(block[2]):
                commands.append(command)
                self.give(command, shown, eventually, expected=command in failing)
        assert [terminal.args for terminal in self.terminals if terminal.poll() is not None] == []
        return commands

    def give(self, command: str, shown: list[str], eventually: Eventually, *, expected: int = 0) -> None:
        """Give a command, until it shows what the page shows."""
        verb = command.split()[1] if command.startswith("turnout ") else ""
        if verb in LASTING:
            self.open_terminal(command)
            eventually(lambda: self.run("turnout db check").returncode == 0)
        elif verb:
            wanted = {plain(line) for line in shown}
            if not CHANGING.match(command):
                eventually(lambda: (ended := self.run(command)).returncode == expected and wanted <= said(ended))
                return
            ended = self.run(command)
            assert ended.returncode == expected, (command, ended.stdout)
            assert wanted <= said(ended), command

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            ["bash", "-c", command],
            env=self.environ,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def write(self, name: str, text: str) -> None:
        """Save a file below the home folder."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def open_terminal(self, command: str) -> None:
        """Start a command that stays."""
        with (self.home / f"terminal-{len(self.terminals)}.log").open("w") as log:
            self.terminals.append(
                subprocess.Popen(
                    command.split(), env=self.environ, cwd=self.home, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            )

    def leave(self) -> None:
        """Stop what still runs."""
        for terminal in self.terminals:
            terminal.terminate()
        for terminal in self.terminals:
            try:
                terminal.wait(60)
            finally:
                terminal.kill()


def conversation(block: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a block, and the lines that are shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.rstrip("\n").split("\n")
        yield command, shown


def plain(line: str) -> str:
    """Take what varies out of a line of output."""
    for pattern, stand_in in VARYING:
        line = re.sub(pattern, stand_in, line)
    return line.strip()


def said(ended: subprocess.CompletedProcess[str]) -> set[str]:
    """List the lines of an output."""
    return {plain(line) for line in ended.stdout.splitlines()}


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.leave()


def test_the_tutorial_works_as_it_stands(reader: Reader, eventually: Eventually) -> None:
    commands = reader.follow("tutorial/first-pipeline.md", eventually, failing=("turnout runs wait station morning",))
    assert len(commands) > 20


def test_the_pages_on_queues_and_on_waiting_tasks_work_as_they_stand(reader: Reader, eventually: Eventually) -> None:
    reader.follow("how-to/several-workers-and-queues.md", eventually)
    reader.follow("how-to/a-task-that-does-not-run.md", eventually)
    reader.follow("how-to/read-logs.md", eventually)
    reader.follow("how-to/be-told.md", eventually)
    reader.follow("how-to/limit-a-task.md", eventually)


def test_the_page_on_waiting_tasks_names_every_reason() -> None:
    page = (DOCS / "how-to" / "a-task-that-does-not-run.md").read_text()
    assert set(Why) - set(re.findall(r"`(\w+)`", page)) == set()


def test_the_page_on_running_again_and_stopping_works_as_it_stands(reader: Reader, eventually: Eventually) -> None:
    reader.follow("how-to/several-workers-and-queues.md", eventually)
    reader.follow("how-to/run-again-and-stop.md", eventually)


def test_the_page_on_own_servers_works_as_it_stands(
    database_url: str, broker_url: str, reader: Reader, eventually: Eventually
) -> None:
    reader.environ |= {"TURNOUT_DATABASE_URL": database_url, "TURNOUT_BROKER_URL": broker_url}
    commands = reader.follow("how-to/own-servers.md", eventually)
    exported = re.findall(r"^export (\w+)=", "\n".join(commands), re.MULTILINE)
    assert sorted(exported) == ["TURNOUT_BROKER_URL", "TURNOUT_DATABASE_URL"]
    eventually(lambda: reader.run("turnout schedulers list").stdout.count("alive") == 2)


def test_what_the_tutorial_installs_is_an_extra_of_the_project() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (wanted,) = re.findall(r"\$ pip install -e '\.\[(\w+)\]'", (DOCS / "tutorial" / "first-pipeline.md").read_text())
    assert wanted in extras


def test_every_page_is_linked_from_the_index_and_every_link_leads_somewhere() -> None:
    pages = sorted(DOCS.rglob("*.md"))
    linked = {
        (page.parent / link).resolve()
        for page in pages
        for link in re.findall(r"\]\(([^)#]+)", page.read_text())
        if "://" not in link
    }
    assert [link for link in linked if not link.exists()] == []
    index = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#]+)", (DOCS / "index.md").read_text())}
    assert [page.name for page in pages if page not in index and page.name != "index.md"] == []


def test_the_timetable_of_the_page_on_schedules_skips_the_weekend() -> None:
    (source,) = re.findall(r"```python\n(.*?)```", (DOCS / "explanation" / "schedules.md").read_text(), re.DOTALL)
    names = dict(vars(tasks))
    exec(source, names)  # noqa: S102  the snippet of the page
    friday = tasks.DataInterval.exact(datetime(2026, 1, 2, 11, tzinfo=UTC))
    restriction = tasks.TimeRestriction(None, None, catchup=True)
    monday = names["Weekdays"]().next_dagrun_info(last_automated_data_interval=friday, restriction=restriction)
    assert monday == tasks.DagRunInfo.exact(datetime(2026, 1, 5, 11, tzinfo=UTC))


def test_the_stops_of_a_task_are_where_the_page_says() -> None:
    page = (DOCS / "explanation" / "how-a-task-travels.md").read_text()
    stops = re.findall(r"^\|[ \d]*\| .+ \| `(\S+\.py)` \| (.+) \|$", page, re.MULTILINE)
    assert len(stops) > 10
    for file, names in stops:
        source = (ROOT / file).read_text()
        assert [name for name in re.findall(r"`(\w+)`", names) if name not in source] == [], file
