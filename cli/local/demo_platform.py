"""The platform of the demo: the real processes of a throwaway home, which speak into files."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, TypeVar

from rich.console import Console

from turnout.cli.local.child import ProcessSpec, turnout_command
from turnout.cli.local.home import make_folder
from turnout.cli.local.servers import EmbeddedServers
from turnout.cli.local.supervisor import Ended, Supervisor
from turnout.config.settings import ENV_PREFIX
from turnout.metadata.engine import Connection, Engine, open_engine, transact
from turnout.metadata.migrate import migrate

#: Beside `cli`, in a checkout as in an installation.
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "dags"
#: Where the pipeline writes, below the home.
FLIGHTS = "flights"
LAST_DAY = "2013-01-31"
SCHEDULERS = ("scheduler-1", "scheduler-2")
#: Each worker and the queue that it serves.
WORKERS = {"worker-default": "default", "worker-heavy": "heavy"}

T = TypeVar("T")


@dataclass
class DemoPlatform:
    """The processes, and the database that they share."""

    home: Path
    supervisor: Supervisor
    engine: Engine
    ended: list[Ended] = field(default_factory=list)

    def ask(self, question: Callable[[Connection], T]) -> T:
        """Run a transaction."""
        return transact(self.engine, question)

    def wait(self, timeout_s: float) -> None:
        """Pass on what the processes print, and note who ended, for at most so long."""
        self.ended += self.supervisor.poll(timeout_s)

    def kill(self, name: str) -> Ended:
        """Kill a process by SIGKILL, and wait until it is gone."""
        self.supervisor.send(name, signal.SIGKILL)
        while name in self.supervisor.pids():
            self.wait(1)
        return next(ended for ended in self.ended if ended.name == name)


class _Files:
    """Writes what each process prints into a file of its own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        make_folder(folder)
        self._folder = folder
        self._stack = stack
        self._files: dict[str, TextIO] = {}

    def write(self, name: str, line: str) -> None:
        if name not in self._files:
            self._files[name] = self._stack.enter_context((self._folder / f"{name}.log").open("w", buffering=1))
        self._files[name].write(line + "\n")

    def say(self, remark: str) -> None:
        self.write("supervisor", remark)


@contextmanager
def demo_platform(home: Path, console: Console) -> Iterator[DemoPlatform]:
    """Run two schedulers, two workers and the DAG processor on embedded servers during a `with` block.

    Raises:
        LocalError: a server cannot start.
    """
    with ExitStack() as stack:
        # The files are open before the processes start, and until the last one has ended.
        files = _Files(home / "output", stack.enter_context(ExitStack()))
        servers = stack.enter_context(EmbeddedServers(home))
        engine = open_engine(servers.database_url, name="demo")
        stack.callback(engine.dispose)
        migrate(engine)
        console.print(f"PostgreSQL and Valkey run in {home}.")
        supervisor = stack.enter_context(Supervisor(_environment(home), files.write, files.say))
        for spec in _specs():
            supervisor.start(spec)
        yield DemoPlatform(home, supervisor, engine)


def _specs() -> list[ProcessSpec]:
    commands = {name: turnout_command("scheduler", "--name", name) for name in SCHEDULERS}
    for name, queue in WORKERS.items():
        commands[name] = turnout_command("worker", "--name", name, "--queues", queue, "--concurrency", "2")
    commands["dag-processor"] = turnout_command("dag-processor")
    # Nobody is started again: whoever ends is either the one that was killed, or what the demo is there to find.
    return [ProcessSpec(name, command, restart=False) for name, command in commands.items()]


def _environment(home: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    return {
        **own,
        "TURNOUT_HOME": str(home),
        "TURNOUT_DAGS_FOLDER": str(EXAMPLES),
        "TURNOUT_LOG__FORMAT": "text",
        "FLIGHTS_FOLDER": str(home / FLIGHTS),
        "FLIGHTS_LAST_DAY": LAST_DAY,
    }
