"""A command in a process group of its own, whose output is logged line by line."""

import logging
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from turnout.tasks.signals import TaskFailed

_log = logging.getLogger("turnout.task")

#: Time between asking the processes of a command to end and killing them; the worker's own grace is as long.
GRACE_S = 5.0
_POLL_S = 0.02


@dataclass(frozen=True)
class EndedCommand:
    """How a command ended."""

    exit_code: int
    last_line: str

    def describe(self) -> str:
        """Say it in words."""
        if self.exit_code >= 0:
            return f"failed with exit code {self.exit_code}"
        with suppress(ValueError):
            return f"was killed by signal {-self.exit_code} ({signal.Signals(-self.exit_code).name})"
        return f"was killed by signal {-self.exit_code}"


def run_command(command: Sequence[str], env: dict[str, str], cwd: str | None, encoding: str) -> EndedCommand:
    """Run a command to its end. If this is left early, by whatever exception, all its processes are ended.

    Args:
        command: the program and its arguments.
        env: the whole environment.
        cwd: the folder to run in; an empty temporary one by default.
        encoding: how to read what it prints; bytes that do not fit are shown as escapes.

    Raises:
        TaskFailed: the program does not exist.
    """
    started: list[subprocess.Popen[bytes]] = []
    with ExitStack() as cleanup:
        folder = cwd or cleanup.enter_context(TemporaryDirectory(prefix="turnout-task-"))
        try:
            process = cleanup.enter_context(_start(command, env, folder, started))
            last_line = _log_output(process, encoding)
            return EndedCommand(process.wait(), last_line)
        except FileNotFoundError:
            raise TaskFailed(f"There is no program {command[0]!r} on this worker: install it.") from None
        except BaseException:
            for process in started:
                with process:
                    end_group(process)
            raise


def _start(
    command: Sequence[str], env: dict[str, str], folder: str, started: "list[subprocess.Popen[bytes]]"
) -> "subprocess.Popen[bytes]":
    """Start a command from a thread, and note it there.

    What a signal raises, it raises in the main thread: there it could strike between the start of the process and the
    moment at which anybody knows of it.
    """

    def start() -> None:
        started.append(
            subprocess.Popen(
                command,
                env=env,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        )

    with ThreadPoolExecutor(1) as starter:
        starter.submit(start).result()
    return started[0]


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """End all processes of the group that a process leads: ask, wait, then kill."""
    deadline = time.monotonic() + GRACE_S
    _signal_group(process, signal.SIGTERM)
    while (process.poll() is None or _signal_group(process, 0)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    _signal_group(process, signal.SIGKILL)
    process.wait()


def _signal_group(process: "subprocess.Popen[bytes]", number: int) -> bool:
    """Send a signal to what is left of the group; 0 only asks whether anything is."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _log_output(process: "subprocess.Popen[bytes]", encoding: str) -> str:
    last = ""
    for raw in process.stdout or ():
        last = raw.decode(encoding, errors="backslashreplace").rstrip("\r\n")
        _log.info("%s", last)
    return last
