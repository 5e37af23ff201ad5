"""A lock on a folder, which says that its owner lives: the kernel takes it away with the last process that holds it.

Unlike a pid, it means the same in every container that sees the folder.
"""

import fcntl
import os
from pathlib import Path


def lock_folder(folder: Path) -> int | None:
    """Lock a folder; return the descriptor that holds the lock, or None when it is locked, or gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), folder.stat()):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
