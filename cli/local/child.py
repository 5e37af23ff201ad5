"""One process beside us: how it is started, what it prints, how it ended."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO

from turnout.cli.local.launch import launch_command
from turnout.cli.local.lines import LONGEST_LINE, LineBuffer


@dataclass(frozen=True)
class ProcessSpec:
    """What to run under which name.

    Args:
        name: a short name for people, unique within a supervisor.
        command: the program and its arguments.
        environment: variables on top of those that the supervisor hands to all.
        restart: whether to start it again when it ends by itself.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    restart: bool = True


def turnout_command(*arguments: str) -> tuple[str, ...]:
    """Write the command line of a `turnout` command, run by this very Python."""
    # -P: a file such as redis.py in the current folder must not become a module of ours.
    return (sys.executable, "-P", "-m", "turnout.cli.main", *arguments)


class Child:
    """A process that runs in a session of its own and is told to end (SIGTERM) when this process does.

    A Ctrl-C in the terminal does not reach it: its supervisor decides when it stops.
    """

    def __init__(self, spec: ProcessSpec, environment: Mapping[str, str]) -> None:
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        self._output: IO[bytes] = os.fdopen(read_end, "rb", buffering=0)
        self._lines = LineBuffer()
        try:
            self._process = subprocess.Popen(
                launch_command(list(spec.command), signal.SIGTERM, os.geteuid(), os.getegid()),
                env={**environment, **spec.environment},
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                start_new_session=True,
            )
        finally:
            os.close(write_end)
        #: Becomes readable when the process has ended.
        self.ended = os.pidfd_open(self._process.pid)

    @property
    def pid(self) -> int:
        """The number of the process; nobody else's until `reap` is called."""
        return self._process.pid

    @property
    def output(self) -> int:
        """The descriptor that becomes readable when the process prints."""
        return self._output.fileno()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process; SIGKILL also to all that it started in its group."""
        if number is signal.SIGKILL:
            os.killpg(self.pid, number)
        else:
            os.kill(self.pid, number)

    def read_lines(self) -> list[str] | None:
        """Take the whole lines printed since, None after the last one."""
        chunk = self._output.read(LONGEST_LINE)
        if chunk == b"":
            return None
        return self._lines.feed(chunk or b"")

    def reap(self) -> int:
        """Take the exit code (negative: a signal) of a process that has ended, and end what it left behind."""
        # Until it is reaped, its number is also that of its group.
        os.killpg(self.pid, signal.SIGKILL)
        code = self._process.wait()
        os.close(self.ended)
        return code

    def last_lines(self) -> list[str]:
        """Take what is left of the output of a process that was reaped, and close it."""
        lines: list[str] = []
        with self._output:
            while chunk := self._output.read(LONGEST_LINE):
                lines += self._lines.feed(chunk)
        return lines + self._lines.flush()
