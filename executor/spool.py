"""The spool: where children write logs that are on their way to the store, a folder for each worker of a machine.

Each attempt has a folder of its own in it, named by its id, and below that the path that its log has in the store. The
worker holds a lock on its folder. When it dies, the lock goes with it, and another worker of the machine sends what is
left.
"""

import os
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from turnout.executor.folder_lock import lock_folder
from turnout.executor.log_limit import LogLimit

#: No DAG has a folder that begins with a dot.
SPOOL = ".spool"
_PROGRESS = ".sent"


@dataclass
class SpooledLog:
    """A log in the spool, and how much of it the store has.

    Attributes:
        attempt: the folder of the attempt.
        path: the file.
        sent: bytes that are in the store.
        parts: in so many parts.
        offered: size of the part that was last offered to the store and not taken yet; that very part is offered again,
            since the store may have taken it.
    """

    attempt: Path
    path: Path
    sent: int = 0
    parts: int = 0
    offered: int = 0
    attempt_id: str = field(init=False)

    def __post_init__(self) -> None:
        self.attempt_id = self.attempt.name

    @property
    def folder(self) -> str:
        """The folder of its parts in the store."""
        return self.path.relative_to(self.attempt).with_suffix("").as_posix()

    def read(self, size: int, max_bytes: int) -> bytes:
        """Read what comes next; nothing when a person has deleted the file.

        Args:
            size: how much at most, in bytes.
            max_bytes: largest size of the log; what may still be cut off is not read.
        """
        try:
            settled = LogLimit(self.path, max_bytes).cut()
            with self.path.open("rb") as file:
                file.seek(self.sent)
                return file.read(max(0, min(size, settled - self.sent)))
        except OSError:
            return b""

    def waiting_bytes(self) -> int:
        """Count the bytes that the store does not have."""
        with suppress(FileNotFoundError):
            return self.path.stat().st_size - self.sent
        return 0

    def note_sent(self, size: int) -> None:
        """Note that the store has one part more, also for a worker that has to go on from here."""
        self.sent += size
        self.parts += 1
        self.offered = 0
        with suppress(OSError):  # a full disk; another worker would send it all again
            (self.attempt / _PROGRESS).write_text(f"{self.sent} {self.parts}")

    def delete(self) -> None:
        """Delete the log: the store has it."""
        shutil.rmtree(self.attempt, ignore_errors=True)


class Spool:
    """One worker's folder in the spool of a machine.

    Args:
        logs: the folder of logs on this machine.
    """

    def __init__(self, logs: Path) -> None:
        self._root = logs / SPOOL
        self._known: dict[Path, SpooledLog] = {}
        self._taken_over: dict[Path, int] = {}
        self.folder = self._root / uuid.uuid4().hex
        self._lock = _make_locked(self.folder)

    def path(self, attempt_id: UUID, relative: Path) -> Path:
        """Name the file into which an attempt writes its log."""
        return self.folder / str(attempt_id) / relative

    def logs(self) -> list[SpooledLog]:
        """List the logs that are in the spool."""
        if self._lock is None:  # the disk was full, or another worker took the new folder for one of a dead worker
            self._lock = _make_locked(self.folder)
        attempts = [attempt for folder in (self.folder, *self._taken_over) for attempt in _list(folder)]
        self._known = {attempt: log for attempt in attempts if (log := self._known.get(attempt) or _open(attempt))}
        return list(self._known.values())

    def take_over(self) -> None:
        """Take over what dead workers have left, and forget what is empty by now."""
        for folder, lock in list(self._taken_over.items()):
            if not _list(folder):
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
                del self._taken_over[folder]
        for folder in _list(self._root):
            if folder != self.folder and folder not in self._taken_over:
                taken = lock_folder(folder)
                if taken is not None:
                    self._taken_over[folder] = taken

    def close(self) -> None:
        """Leave the spool; what is still in it is there for another worker to take over."""
        for folder in (self.folder, *self._taken_over):
            with suppress(OSError):
                folder.rmdir()
        for lock in (self._lock, *self._taken_over.values()):
            if lock is not None:
                os.close(lock)
        self._taken_over.clear()


def _open(attempt: Path) -> SpooledLog | None:
    path = next(attempt.rglob("*.jsonl"), None)
    if path is None:
        return None
    try:
        sent, parts = map(int, (attempt / _PROGRESS).read_text().split())
    except (OSError, ValueError):
        sent = parts = 0
    return SpooledLog(attempt, path, sent, parts)


def _make_locked(folder: Path) -> int | None:
    """Make a folder and lock it; where that cannot be done, children will say that they cannot write their logs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return lock_folder(folder)
    except OSError:
        return None


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
