"""The pipes by which a child talks to its worker, which user code may close, or replace by files of its own."""

import os
import stat
from functools import cache
from pathlib import Path

_STDERR = 2


class OwnPipes:
    """The pipes that this process has beside its standard streams, which an attempt's log takes the place of."""

    def __init__(self) -> None:
        fds = [fd for entry in Path("/proc/self/fd").iterdir() if (fd := int(entry.name)) > _STDERR]
        self._known = {fd: found for fd in fds if (found := _pipe(fd)) is not None}

    def are_whole(self) -> bool:
        """Tell whether all of them are still what they were: else whoever writes a report writes it anywhere."""
        return all(_pipe(fd) == found for fd, found in self._known.items())


@cache
def own_pipes() -> OwnPipes:
    """Return the pipes that this process had when it asked first."""
    return OwnPipes()


def _pipe(fd: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISFIFO(found.st_mode) else None
