"""The watchdog: what makes that nothing of a worker outlives its main process, whatever ends that."""

import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress

from turnout.executor import watchdog_process


class Watchdog:
    """The watchdog's process, as the worker's main process sees it. It is there from `start` on."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        # A socket, since a child leaves all sockets of its parent behind: it must not hold this line open.
        self._line: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """The number of its process."""
        return None if self._process is None else self._process.pid

    @property
    def line(self) -> socket.socket:
        """What becomes readable when its process has ended."""
        assert self._line is not None  # noqa: S101  it was started
        return self._line

    def start(self, pids: Iterable[int] = ()) -> None:
        """Start its process, in place of one that has ended, and let it look after some others."""
        self.stop()
        line, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-I", "-S", str(watchdog_process.__file__)]
            self._process = subprocess.Popen(command, stdin=theirs.fileno(), start_new_session=True)
        self._line = line
        for pid in pids:
            self.look_after(pid)

    def look_after(self, pid: int) -> None:
        """Let a process end with the main process, and all its descendants before it."""
        with suppress(OSError):  # it has ended: the next one is told of all
            self.line.sendall(b"%d\n" % pid)

    def stop(self) -> None:
        """End its process; harmless when there is none. What it looks after ends with it."""
        line, process, self._line, self._process = self._line, self._process, None, None
        if line is not None and process is not None:
            line.close()
            process.wait()
