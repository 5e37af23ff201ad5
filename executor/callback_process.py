"""A process of its own for callbacks, as the worker's main process sees it."""

import json
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from turnout.executor.assignment import CallbackAssignment, too_long
from turnout.executor.descendants import Subprocesses

#: How often a call that goes on is compared with whether it may.
_LOOK_S = 0.2
#: How long one that has nothing more to say may take to end by itself.
_END_S = 1.0


class CallbackProcess:
    """Runs callbacks one after the other; it is started with the first, and again after one that it did not survive.

    Args:
        subprocesses: starts it.
        on_death: called when it did not survive a callback: what that has started may still run.
    """

    def __init__(self, subprocesses: Subprocesses, on_death: Callable[[], None]) -> None:
        self._subprocesses = subprocesses
        self._on_death = on_death
        self._process: subprocess.Popen[bytes] | None = None

    def call(self, assignment: CallbackAssignment, may_go_on: Callable[[], bool]) -> str | None:
        """Run one callback.

        Args:
            assignment: what to call, and for how long at most.
            may_go_on: asked now and then; when it says no, the process is killed.

        Returns:
            What went wrong, in a line; None when nothing did.
        """
        try:
            process = self._process = self._process or self._start()
        except OSError as error:
            return f"Its process could not be started: {error}."
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018  both are pipes
        reason = None
        try:
            pickle.dump(assignment, process.stdin)
            process.stdin.flush()
            reason = _wait(process.stdout.fileno(), assignment, may_go_on)
            if reason is None:
                answer: dict[str, str | None] = json.loads(process.stdout.readline())
                return answer["problem"]
        except (OSError, ValueError, LookupError, TypeError):  # it has ended, or said something else
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)  # its pipes are closed before it can be waited for
        code = self._kill()
        self._on_death()
        return reason or _ending(code)

    def end(self) -> None:
        """Let the process go: it has nothing to do."""
        if self._process is not None:
            self._kill()

    def _start(self) -> "subprocess.Popen[bytes]":
        return self._subprocesses.start(
            [sys.executable, "-P", "-m", "turnout.executor.callback_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def _kill(self) -> int:
        """Kill the process with all that is in its session's first group; return its exit code."""
        process, self._process = self._process, None
        assert process is not None and process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()
        code = process.poll()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        ended = process.wait()
        self._subprocesses.forget(process)
        return ended if code is None else code


def _wait(fd: int, assignment: CallbackAssignment, may_go_on: Callable[[], bool]) -> str | None:
    """Wait until something can be read; return why it was waited for no longer."""
    deadline, poll = time.monotonic() + assignment.deadline_s, select.poll()
    poll.register(fd, select.POLLIN)
    while not poll.poll(_LOOK_S * 1000):
        if time.monotonic() > deadline:
            return f"{too_long(assignment.timeout_s)} It did not stop, and was killed."
        if not may_go_on():
            return "The worker was stopped while it ran."
    return None


def _ending(code: int) -> str:
    if code < 0:
        return f"Its process was killed by signal {-code}."
    return f"It ended its process with exit code {code}."
