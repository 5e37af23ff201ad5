"""Where the embedded servers of a home live: known from the home alone, so that every command finds them."""

import hashlib
import os
from pathlib import Path
from urllib.parse import quote

#: A Unix socket's path may be 107 bytes long (sockaddr_un, Linux); the longest name below the folder is
#: `.s.PGSQL.5432.lock`.
MAX_FOLDER_BYTES = 107 - len("/.s.PGSQL.5432.lock")
VALKEY_SOCKET = "valkey.sock"


def servers_folder(home: Path) -> Path:
    """Name the folder that holds the data of a home's servers."""
    return home / "servers"


def embedded_folder(home: Path) -> Path:
    """Name the folder that holds the sockets of a home's servers: beside their data, unless that path is too long."""
    folder = servers_folder(home)
    if len(os.fsencode(folder)) <= MAX_FOLDER_BYTES:
        return folder
    short = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    return Path("/tmp") / f"turnout-{os.geteuid()}-{short}"  # noqa: S108  the supervisor checks its owner and mode


def embedded_database_url(home: Path) -> str:
    """Write the URL of a home's PostgreSQL."""
    return f"postgresql://turnout@/turnout?host={quote(str(embedded_folder(home)), safe='/')}"


def embedded_broker_url(home: Path) -> str:
    """Write the URL of a home's Valkey."""
    return f"redis+socket://{quote(str(embedded_folder(home)), safe='/')}/{VALKEY_SOCKET}"
