"""What a process and all that it has started use: from Linux's `/proc`, as cheaply as it can be had.

psutil would read all processes of the machine to find the descendants of one.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: Places in `/proc/<pid>/stat` behind the name of the program, which may hold anything: `man 5 proc_pid_stat`.
_UTIME, _CSTIME, _RSS = 11, 14, 21


@dataclass(frozen=True)
class Usage:
    """What is used.

    Attributes:
        memory_bytes: resident memory; what several processes share is counted for each.
        cpu_s: CPU time, with that of descendants that have ended and were waited for.
    """

    memory_bytes: int
    cpu_s: float


def usage_of(pid: int) -> Usage:
    """Add up what a process and its descendants use; nothing for one that has ended."""
    memory, ticks, waiting = 0, 0, [pid]
    while waiting:
        found = waiting.pop()
        try:
            fields = Path(f"/proc/{found}/stat").read_text(errors="replace").rpartition(")")[2].split()
            waiting += _children_of(found)
        except OSError:  # it has ended
            continue
        ticks += sum(map(int, fields[_UTIME : _CSTIME + 1]))
        memory += int(fields[_RSS]) * _PAGE
    return Usage(memory, ticks * _TICK_S)


def forget_peak_memory() -> None:
    """Let the peak memory of this process, which its parent reads when it ends, count from now on.

    Writing 5 resets it: `man 5 proc_pid_clear_refs`. Where that is not allowed, the peak is that of its whole life.
    """
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _children_of(pid: int) -> list[int]:
    lists = [(thread / "children").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    return [int(child) for pids in lists for child in pids.split()]
