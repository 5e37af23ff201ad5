"""The largest size of a log: what is said beyond it is not kept, and the log says so.

Subprocesses write into the file by themselves, so nobody can stop them at a size. Instead whoever finds the file too
large cuts it: its child after each entry, and the worker's main process about once a second. Where the cut is depends
on the file alone, so that all of them cut alike, and a file that was cut has always the same size.
"""

import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from turnout.executor.logs import LOG_LIMIT_LOGGER, stamped_line
from turnout.executor.roster import Roster
from turnout.executor.service import Service

#: Behind the limit, for the marker.
_ROOM = 1024
#: A cut is made at the end of a line, unless none ends so near before the limit.
_WINDOW = 64 << 10
_INTERVAL_S = 1.0
_MARK = f'"logger": "{LOG_LIMIT_LOGGER}"'.encode()


class LogLimit:
    """The limit of one log.

    Args:
        path: the file.
        max_bytes: its largest size, the marker aside; with it, `end`.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self.max_bytes = max_bytes
        self.end = max_bytes + _ROOM

    def cut(self) -> int:
        """Cut the file if it is larger than allowed; return up to where it will not change any more.

        Raises:
            OSError: it cannot be read or written.
        """
        size = self._path.stat().st_size
        if size <= self.max_bytes or (size == self.end and self._is_marked()):
            return size
        with self._path.open("r+b", buffering=0) as file:
            if not self._is_marked():
                start = self._cut_at()
                file.seek(start)
                file.write(self._marker(self.end - start))
            file.truncate(self.end)
        return self.end

    def _is_marked(self) -> bool:
        before = self._read(self.end - _WINDOW - _ROOM, self.end)
        return before.endswith(b"}\n") and _MARK in before[before[:-1].rfind(b"\n") + 1 :]

    def _cut_at(self) -> int:
        start = max(0, self.max_bytes - _WINDOW)
        return start + (self._read(start, self.max_bytes).rfind(b"\n") + 1 or self.max_bytes - start)

    def _marker(self, length: int) -> bytes:
        """Make an entry that fills what is left: JSON may have blanks before its end."""
        text = (
            f"The log has reached its limit of {self.max_bytes >> 20} MiB: what this attempt says from here on is not "
            "kept (setting worker.max_log_per_attempt_mb)."
        )
        line = stamped_line(datetime.now(UTC), text, "warning", LOG_LIMIT_LOGGER, "logging").encode()
        return b"\n" * (length == _ROOM) + line[:-2].ljust(length - 2 - (length == _ROOM)) + b"}\n"

    def _read(self, start: int, end: int) -> bytes:
        start = max(0, start)
        with closing(self._path.open("rb", buffering=0)) as file:
            return os.pread(file.fileno(), end - start, start)


class LogTrimmer(Service):
    """The thread that cuts logs into which subprocesses write by themselves.

    Args:
        roster: the attempts held.
    """

    def __init__(self, roster: Roster) -> None:
        super().__init__("log trimmer")
        self._roster = roster

    def run(self) -> None:
        """Cut until stopped."""
        while not self._stopping.wait(_INTERVAL_S):
            self.run_once()

    def run_once(self) -> None:
        """Cut the logs that are too large."""
        for attempt in self._roster.running():
            limit = LogLimit(Path(attempt.assignment.log_file), attempt.assignment.log_max_bytes)
            try:
                limit.cut()
            except OSError:  # not there yet, or its child will say why it cannot be written
                continue
