"""The DAGs folder: which files are in it, and whether one has changed."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Stamp(NamedTuple):
    """What changes whenever a file is written, replaced or moved."""

    inode: int
    size: int
    modified_ns: int


def list_files(folder: Path) -> dict[str, Stamp]:
    """List the Python files below a folder by their POSIX path in it.

    A link to a file counts as that file (so a mounted Kubernetes ConfigMap, which is all links, works), and the folder
    itself may be a link. Hidden files and folders, `__pycache__` and links to folders, which could go in circles, are
    passed over.

    Raises:
        OSError: the folder cannot be read.
    """
    with os.scandir(folder) as entries:
        return dict(sorted(_files(entries, "")))


def stamp_of(folder: Path, file: str) -> Stamp | None:
    """Return the stamp of a file of the folder; None when it is no longer there."""
    try:
        status = (folder / file).stat()
    except OSError:
        return None
    return _stamp(status) if stat.S_ISREG(status.st_mode) else None


def _files(entries: Iterator[os.DirEntry[str]], prefix: str) -> Iterator[tuple[str, Stamp]]:
    for entry in entries:
        if entry.name.startswith(".") or not entry.name.isprintable():
            continue
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry, f"{prefix}{entry.name}/")
            elif entry.name.endswith(".py") and entry.is_file():
                yield prefix + entry.name, _stamp(entry.stat())
        except OSError:
            continue  # removed meanwhile, or not ours to read: as good as not there


def _files_below(folder: os.DirEntry[str], prefix: str) -> Iterator[tuple[str, Stamp]]:
    if folder.name != "__pycache__":
        with os.scandir(folder) as entries:
            yield from _files(entries, prefix)


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns)
