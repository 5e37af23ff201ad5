"""What an attempt leaves running: processes that its task has started, near and far, end with it.

A child takes in its orphans (Linux: `PR_SET_CHILD_SUBREAPER`), so that no daemon escapes it, and ends them all after
each attempt. The worker's main process takes in those of a child that died, and kills them. When the main process dies,
its watchdog ends them. Only what several of these leave behind that die at once goes to the first process of the
system, as always.
"""

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from turnout.executor.watchdog import Watchdog

#: From <linux/prctl.h>.
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
#: Between asking leftovers to end and killing them.
GRACE_S = 1.0
#: The event loop waits so long at most for what it has killed; what hangs in the kernel is waited for the next time.
REAPING_S = 0.1
_POLL_S = 0.01


def take_in_orphans() -> None:
    """Become the parent of all descendants whose own parent ends; without effect where the system cannot do that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def stop_with_parent() -> None:
    """Be stopped when the parent ends, whatever ends it: the watchdog does the rest (Linux)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGSTOP, 0, 0, 0)


class Subprocesses:
    """The processes that a worker's main process starts beside its pool; orphans are looked for at no such moment.

    Attributes:
        watchdog: started by the pool; it looks after them, and after the pool's own.
    """

    def __init__(self) -> None:
        self.watchdog = Watchdog()
        self._lock = threading.Lock()
        self._pids: set[int] = set()

    def start(self, command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
        """Start a process."""
        with self._lock:
            process = subprocess.Popen(command, **options)
            self._pids.add(process.pid)
            self.watchdog.look_after(process.pid)
        return process

    def forget(self, process: "subprocess.Popen[bytes]") -> None:
        """Take note that a process has ended, and was waited for."""
        self._pids.discard(process.pid)

    @contextmanager
    def at_rest(self) -> Iterator[frozenset[int]]:
        """Start none for the time of the block, which is told the pids of those that there are."""
        with self._lock:
            yield frozenset(self._pids)


def end_descendants() -> list[str]:
    """End all descendants of this process: ask, wait for a second, then kill.

    Returns:
        The names of the processes that were still running.
    """
    names: dict[int, str] = {}
    deadline = time.monotonic() + GRACE_S
    while found := _living(_children()):
        is_overdue = time.monotonic() > deadline
        for process in found:
            if process.pid not in names or is_overdue:
                with suppress(psutil.Error):
                    names.setdefault(process.pid, process.name())
                    process.send_signal(signal.SIGKILL if is_overdue else signal.SIGTERM)
        time.sleep(_POLL_S)
    return list(names.values())


def kill_orphans(own: Collection[int]) -> int:
    """Kill those children of this process that it has taken in, with their descendants; return how many there were.

    Args:
        own: pids of the children that it has forked itself; no other thread may fork meanwhile.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + REAPING_S
    while (orphans := _living(_children() - set(own))) and time.monotonic() < deadline:
        for process in orphans:
            killed.add(process.pid)
            with suppress(psutil.Error):
                process.kill()
        time.sleep(_POLL_S / 10)
    return len(killed)


def reap_orphans(own: Collection[int]) -> None:
    """Wait for those children of this process that it has taken in and that have ended; let those be that run.

    The first process of a container is given such ones by others, too, such as a command that a person runs in it.
    """
    for pid in _children() - set(own):
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _living(pids: Collection[int]) -> list[psutil.Process]:
    """List those of some children that still run, with their descendants; wait for those that have ended."""
    found = []
    for pid in pids:
        with suppress(ChildProcessError, psutil.Error):
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                child = psutil.Process(pid)
                found += [child, *child.children(recursive=True)]
    return found


def _children() -> set[int]:
    """List the pids of the children of this process, whichever thread has started them."""
    try:
        lists = [(thread / "children").read_text() for thread in Path("/proc/self/task").iterdir()]
    except OSError:  # a thread has ended meanwhile, or the system keeps no such lists
        return {child.pid for child in psutil.Process().children()}
    return {int(pid) for pids in lists for pid in pids.split()}
