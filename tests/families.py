"""What runs below a process, told while any of it may end."""

from collections.abc import Iterator

import psutil


def commands_below(pid: int) -> dict[int, str]:
    """Return the command lines of all that run below a process, by pid."""
    return dict(_commands(psutil.Process(pid).children(recursive=True)))


def _commands(processes: list[psutil.Process]) -> Iterator[tuple[int, str]]:
    for process in processes:
        try:
            yield process.pid, " ".join(process.cmdline())
        except psutil.Error:  # it has ended, and its parent may not have noticed
            continue


def is_zombie(process: psutil.Process) -> bool:
    """Tell whether a process has ended without its parent having noticed."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
