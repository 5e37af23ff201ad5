"""Who runs the embedded servers and owns their data."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from turnout.cli.local.errors import LocalError

#: As root, the first of these that exists: PostgreSQL refuses to run as root.
UNPRIVILEGED = ("turnout", "postgres", "nobody", "daemon")


@dataclass(frozen=True)
class Owner:
    """A user of this machine, by number."""

    uid: int
    gid: int

    @property
    def is_me(self) -> bool:
        """Whether this process runs as that user."""
        return self.uid == os.geteuid()

    def own(self, path: Path) -> None:
        """Give a file or folder that this process made to the user."""
        if not self.is_me:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def owner_of(folder: Path) -> Owner:
    """Choose the user for the servers whose data are, or will be, in a folder.

    That is the user of this process; for root, whoever owns the folder already, else an unprivileged user.

    Raises:
        LocalError: root, and no unprivileged user exists.
    """
    if os.geteuid() != 0:
        return Owner(os.geteuid(), os.getegid())
    return _existing_owner(folder) or _unprivileged()


def _existing_owner(folder: Path) -> Owner | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return Owner(found.st_uid, found.st_gid) if found.st_uid else None


def _unprivileged() -> Owner:
    for name in UNPRIVILEGED:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return Owner(user.pw_uid, user.pw_gid)
    raise LocalError(
        "PostgreSQL does not run as root, and this machine has no unprivileged user to run it: "
        "create one with `useradd --system turnout`, or set TURNOUT_DATABASE_URL and TURNOUT_BROKER_URL."
    )
