"""The process that ends what a worker's main process leaves behind when it is killed.

It is told the pids of all that run user code, and knows by the end of its standard input that the main process is gone.
Those that it was told of take in the orphans among their descendants, and the kernel has stopped them by then: so none
of the descendants can escape while they are killed one after the other, and those that were stopped after them.

Run as a script, with nothing but the standard library: it is there for as long as the worker, and shall be small.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

#: What hangs in the kernel for longer is left alone.
PATIENCE_S = 10.0
_LOOK_S = 0.005
#: Places in `/proc/<pid>/stat` behind the name of the program, which may hold anything: `man 5 proc_pid_stat`.
_STATE, _STARTED = 0, 19

#: Pids may be used again; with the time at which it started, a process is known for good.
Known = dict[int, str]


def main() -> None:
    """Wait for the end of standard input, and end what was told there."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    end_all(_listen(sys.stdin))


def _listen(lines: Iterable[str]) -> Known:
    known: Known = {}
    for line in lines:
        known = living({**known, int(line): _started(int(line))})
    return living(known)


def living(known: Known) -> Known:
    """Return those that still run."""
    return {pid: started for pid, started in known.items() if started and _started(pid) == started}


def end_all(known: Known) -> None:
    """End some processes, and before them all that they have started."""
    for pid in known:
        _kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + PATIENCE_S
    while (found := [child for pid in known for child in _descendants(pid)]) and time.monotonic() < deadline:
        for pid in found:
            _kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_S)
    for pid in known:
        _kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """List all descendants that still run."""
    found, waiting = [], [pid]
    while waiting:
        with contextlib.suppress(OSError):  # it has ended
            parent = waiting.pop()
            lists = [(thread / "children").read_text() for thread in Path(f"/proc/{parent}/task").iterdir()]
            children = [int(child) for pids in lists for child in pids.split() if _started(int(child))]
            found += children
            waiting += children
    return found


def _started(pid: int) -> str:
    """Return when a process started, in the kernel's words; nothing when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[_STATE] in "ZX" else fields[_STARTED]


def _kill(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


if __name__ == "__main__":
    main()
