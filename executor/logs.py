"""The logs of attempts: one file of JSON lines each, where it lives and how it is read."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote
from uuid import UUID

#: Every line that Turnout writes begins so; see `read_log`.
LINE_START = '{"ts": "'
#: Who says that a log has reached its limit.
LOG_LIMIT_LOGGER = "turnout.log_limit"
_LONGEST_MARKER = 128 << 10
#: The longest name of a file that common file systems allow, in bytes.
_NAME_BYTES = 255


@dataclass(frozen=True)
class LogEntry:
    """One entry of an attempt's log; `ts` (ISO 8601, UTC) is None for output that nobody could stamp."""

    ts: str | None
    level: str
    logger: str
    msg: str
    stream: str  # stdout, stderr or logging


def log_path(
    folder: Path, *, dag_id: str, run_id: str, task_id: str, map_index: int, try_number: int, attempt_id: UUID
) -> Path:
    """Name the log file of an attempt below the folder of logs."""
    parts = (_safe(dag_id), _safe(run_id), _safe(task_id), str(map_index), f"{try_number}-{attempt_id}.jsonl")
    return folder.joinpath(*parts)


def stamped_line(moment: datetime, message: str, level: str, logger: str, stream: str) -> str:
    """Write an entry as a line of a log."""
    ts = moment.isoformat(timespec="milliseconds")
    tail = f'"level": "{level}", "logger": {json.dumps(logger)}, "stream": "{stream}"'
    return f'{LINE_START}{ts}", "msg": {json.dumps(message)}, {tail}}}\n'


class LogTail:
    """A log that is read piece by piece, also while it is being written.

    A task's own subprocesses write into the same file as they are: such lines are not JSON of ours, and are read as
    plain output.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path = path
        self._offset = 0

    def read(self, *, to_the_end: bool) -> Iterator[LogEntry]:
        """Read what has come since the last call.

        Args:
            to_the_end: nothing more will come: read also a last line that has no end.

        Raises:
            FileNotFoundError: the attempt has not started, or its log was deleted.
        """
        with self._path.open("rb") as lines:
            size = os.fstat(lines.fileno()).st_size
            if self._offset > size:  # it was cut at its limit: the last line says so
                self._offset = _start_of_last_line(lines, size)
            lines.seek(self._offset)
            for line in lines:
                if not (line.endswith(b"\n") or to_the_end):
                    return
                self._offset += len(line)
                yield from parse_line(line.rstrip(b"\n"))

    def is_whole(self) -> bool:
        """Tell whether everything that the attempt said can be read now, if it has ended."""
        return True

    def exists(self) -> bool:
        """Tell whether there is a log at all."""
        return self._path.exists()


def _start_of_last_line(file: BinaryIO, size: int) -> int:
    start = max(0, size - _LONGEST_MARKER)
    file.seek(start)
    return start + file.read(size - start - 1).rfind(b"\n") + 1


def read_log(path: Path) -> Iterator[LogEntry]:
    """Read the log of an attempt as it is now.

    Raises:
        FileNotFoundError: the attempt has not started, or its log was deleted.
    """
    return LogTail(path).read(to_the_end=True)


def parse_line(line: bytes) -> Iterator[LogEntry]:
    """Read a line of a log: an entry, or raw output of a subprocess, or the two in one line."""
    text = line.decode(errors="replace")
    raw, start, rest = text.partition(LINE_START)
    if start:
        try:
            fields = json.loads(start + rest)
            entry = LogEntry(fields["ts"], fields["level"], fields["logger"], fields["msg"], fields["stream"])
            _check(entry)
        except (ValueError, KeyError):
            raw = text
        else:
            if raw:
                yield _unstamped(raw)
            yield entry
            return
    yield _unstamped(raw)


def _check(entry: LogEntry) -> None:
    """Refuse what only looks like an entry: a subprocess may print anything."""
    words = (entry.ts, entry.level, entry.logger, entry.msg, entry.stream)
    if not all(isinstance(word, str) for word in words) or not datetime.fromisoformat(str(entry.ts)).tzinfo:
        raise ValueError


def _unstamped(text: str) -> LogEntry:
    return LogEntry(None, "info", "", text, "stdout")


def _safe(name: str) -> str:
    """Make a name that stays below its folder; ordinary run ids (`scheduled__2013-01-01T00:00:00+00:00`) stay as is."""
    quoted = quote(name, safe="+:@=,~ ")
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    return quoted[:_NAME_BYTES]
