"""Everything that an attempt says, caught into its log: prints, logging, and what its subprocesses write."""

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from turnout.executor.log_limit import LogLimit
from turnout.executor.logs import stamped_line

#: A line that does not end is written when it has grown to so many characters.
_LONGEST_LINE = 16_384


class AttemptLog:
    """The log file of one attempt, open for writing.

    Nothing that goes wrong with it may cost the attempt its outcome: when the file cannot be opened or written, entries
    are lost, and that is all.

    Args:
        path: the file.
        max_bytes: its largest size.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.problem: str | None = None
        self._limit = LogLimit(path, max_bytes)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            self.problem = f"Cannot write the log {path}: {error.strerror}."
            self._fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)

    def write(self, stream: str, level: str, logger: str, *messages: str) -> None:
        """Append entries, all in one write."""
        now = datetime.now(UTC)
        text = "".join(stamped_line(now, message, level, logger, stream) for message in messages)
        self.write_bytes(text.encode())

    def write_bytes(self, data: bytes | memoryview) -> None:
        """Append bytes as they are."""
        data = memoryview(data).cast("B")
        try:
            size = os.fstat(self._fd).st_size
            if size >= self._limit.end:
                return
            room = self._limit.max_bytes - size
            is_too_large = len(data) > room
            if is_too_large:  # one byte more, by which everybody sees that it is
                data = data[: max(0, room + 1)]
            while data:
                data = data[os.write(self._fd, data) :]
            if is_too_large:
                self._limit.cut()
        except OSError as error:
            self.problem = f"Cannot write to the log: {error.strerror}."

    def fileno(self) -> int:
        """Return the file's descriptor."""
        return self._fd

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            self._limit.cut()
        with suppress(OSError):
            os.close(self._fd)


@contextmanager
def captured(log: AttemptLog, level: int = logging.INFO) -> Iterator[None]:
    """Send standard output, standard error and logging of this process to a log.

    `sys.stdout` and `sys.stderr` write whole entries. Descriptors 1 and 2 are the file itself, so that the output of
    subprocesses and of C code needs no thread to carry it, and is there also after a crash.
    """
    keep = [os.dup(1), os.dup(2)]
    streams = sys.stdout, sys.stderr
    root = logging.getLogger()
    handlers, old_level = root.handlers[:], root.level
    out, err = _Stream(log, "stdout", "info", 1), _Stream(log, "stderr", "error", 2)
    try:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        sys.stdout, sys.stderr = out, err
        root.handlers[:] = [_Handler(log)]
        root.setLevel(level)
        yield
    finally:
        out.finish()
        err.finish()
        sys.stdout, sys.stderr = streams
        root.handlers[:] = handlers
        root.setLevel(old_level)
        for number, kept in enumerate(keep, start=1):
            os.dup2(kept, number)
            os.close(kept)


class _Handler(logging.Handler):
    def __init__(self, log: AttemptLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._log.write("logging", record.levelname.lower(), record.name, self.format(record))
        except Exception as error:  # noqa: BLE001  a record that cannot be formatted is its author's mistake
            self._log.write("logging", "error", record.name, f"A log record could not be formatted: {error!r}")


class _Stream(io.TextIOBase):
    """A text stream whose lines become entries."""

    def __init__(self, log: AttemptLog, name: str, level: str, fd: int) -> None:
        self._log = log
        self._name = name
        self._level = level
        self._fd = fd
        self._rest = ""

    @property
    def buffer(self) -> io.BufferedIOBase:
        return _RawStream(self._log)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def fileno(self) -> int:
        return self._fd

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        if len(self._rest) > _LONGEST_LINE:
            lines.append(self._rest)
            self._rest = ""
        if lines:
            self._log.write(self._name, self._level, "", *lines)
        return len(text)

    def finish(self) -> None:
        """Write the last line, which had no end."""
        if self._rest:
            self.write("\n")


class _RawStream(io.BufferedIOBase):
    def __init__(self, log: AttemptLog) -> None:
        self._log = log

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        view = memoryview(data)
        self._log.write_bytes(view)
        return view.nbytes
