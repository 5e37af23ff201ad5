"""The home folder: made when it is missing, and held by one process at a time."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from turnout.cli.local.errors import ForeignFolderError, HomeInUseError, HomeUnusableError
from turnout.cli.local.owner import Owner, owner_of
from turnout.config.embedded import embedded_folder, servers_folder

LOCK_NAME = "turnout.lock"


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder, and those above it, unless it is there.

    Raises:
        HomeUnusableError: it cannot be made or written.
    """
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise HomeUnusableError(
            f"Cannot create the folder {path}: {error.strerror}. Choose another home with TURNOUT_HOME."
        ) from None


@contextlib.contextmanager
def hold_home(home: Path) -> Iterator[None]:
    """Keep a home to this process; the kernel lets go of it when the process ends, however it ends.

    Raises:
        HomeInUseError: another process holds it. The message names that process.
        HomeUnusableError: the home cannot be written.
    """
    make_folder(home)
    try:
        descriptor = os.open(home / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise HomeUnusableError(
            f"Cannot write in the home folder {home}: {error.strerror}. Choose another one with TURNOUT_HOME."
        ) from None
    with os.fdopen(descriptor, "r+") as file:
        _lock(file.fileno(), home, file.read().strip())
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _lock(descriptor: int, home: Path, holder: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise HomeInUseError(
            f"Turnout is up in {home} already, as process {holder or 'unknown'}. "
            "Stop that one, or choose another home with TURNOUT_HOME."
        ) from None


def make_servers_folders(home: Path) -> Owner:
    """Make the folders of the servers' data and sockets, private to the user who runs them, and name that user.

    Raises:
        ForeignFolderError: the sockets' folder belongs to somebody else.
        HomeUnusableError: a folder cannot be made.
    """
    owner = owner_of(servers_folder(home))
    for folder in {servers_folder(home), embedded_folder(home)}:
        fresh = not os.path.lexists(folder)
        make_folder(folder, mode=0o700)
        if fresh or not any(folder.iterdir()):
            owner.own(folder)
        _check_private(folder, owner)
    return owner


def _check_private(folder: Path, owner: Owner) -> None:
    found = folder.lstat()
    # A symbolic link, as lstat sees it, is one that everybody may write.
    if found.st_uid != owner.uid or found.st_mode & 0o022:
        raise ForeignFolderError(
            f"{folder} must be a folder that only user {owner.uid} may write, and it is not. "
            "Move it away, or choose another home with TURNOUT_HOME."
        )
