"""Where the embedded servers of a home live: known from the home alone, so that every command finds them."""

import hashlib
import os
import stat
from pathlib import Path

#: A Unix socket's path may be 107 bytes long (sockaddr_un, Linux); the longest name below the folder is
#: `.s.PGSQL.5432.lock`.
MAX_FOLDER_BYTES = 107 - len("/.s.PGSQL.5432.lock")
#: As root, PostgreSQL runs as another user, who cannot enter a private home such as root's own.
ROOT_FOLDER = Path("/var/lib/turnout")


def embedded_folder(home: Path) -> Path:
    """Name the folder that holds the sockets (and, as root below a private folder, the data) of a home's servers."""
    short = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    if os.geteuid() == 0 and not _others_may_enter(home.parent):
        return ROOT_FOLDER / short
    folder = home / "run"
    if len(os.fsencode(folder)) > MAX_FOLDER_BYTES:
        return Path("/tmp") / f"turnout-{os.geteuid()}-{short}"  # noqa: S108  the supervisor checks its owner and mode
    return folder


def _others_may_enter(folder: Path) -> bool:
    for step in (folder, *folder.parents):
        try:
            if not step.stat().st_mode & stat.S_IXOTH:
                return False
        except FileNotFoundError:
            continue
    return True
