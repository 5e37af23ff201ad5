"""What a new child process must not have: the sockets of its parent."""

import os
import stat
from pathlib import Path

_STANDARD_STREAMS = 3


def forget_parent() -> None:
    """Leave behind what fork has inherited from the worker's main process.

    A child that replaces a dead one is forked from a process full of connections: to the database, to the broker, to
    other children. Its pool talks to it by pipes, so every socket can go. Descriptors are pointed at `/dev/null` rather
    than closed: objects that still hold their numbers can then neither reach the server nor close a stranger's file.
    """
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in inherited_sockets():
        os.dup2(nowhere, fd, inheritable=False)
    os.close(nowhere)


def inherited_sockets() -> list[int]:
    """List the descriptors of this process that are sockets, the standard streams aside."""
    return [fd for fd in _descriptors() if fd >= _STANDARD_STREAMS and _is_socket(fd)]


def _descriptors() -> list[int]:
    return [int(entry.name) for entry in Path("/dev/fd").iterdir()]


def _is_socket(fd: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:  # the descriptor of the listing itself
        return False
