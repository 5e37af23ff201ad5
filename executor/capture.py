"""Everything that an attempt says, caught into its log: prints, logging, and what its subprocesses write."""

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from turnout.config.masking import Masker
from turnout.executor.log_limit import LogLimit
from turnout.executor.logs import stamped_line
from turnout.executor.masked_pipe import MaskedPipe

#: A line that does not end is written when it has grown to so many characters.
_LONGEST_LINE = 16_384


class AttemptLog:
    """The log file of one attempt, open for writing.

    Nothing that goes wrong with it may cost the attempt its outcome: when the file cannot be opened or written, entries
    are lost, and that is all.

    Args:
        path: the file.
        max_bytes: its largest size.
        masker: knows the secrets that must not be in it.
    """

    def __init__(self, path: Path, max_bytes: int, masker: Masker) -> None:
        self.problem: str | None = None
        self.masker = masker
        self._pipe: MaskedPipe | None = None
        self._limit = LogLimit(path, max_bytes)
        self._path = path
        self._open()

    def _open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            self.problem = f"Cannot write the log {self._path}: {error.strerror}."
            self._fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        found = os.fstat(self._fd)
        self._file = found.st_dev, found.st_ino

    def _size(self) -> int:
        """Look how large the file is; open it again if the task has closed it, or has something else there by now."""
        with suppress(OSError):
            found = os.fstat(self._fd)
            if (found.st_dev, found.st_ino) == self._file:
                return found.st_size
        self._open()
        return os.fstat(self._fd).st_size

    def write(self, stream: str, level: str, logger: str, *messages: str) -> None:
        """Append entries, all in one write."""
        if self._pipe is not None:
            self._pipe.settle()
        now = datetime.now(UTC)
        mask = self.masker.mask
        text = "".join(stamped_line(now, mask(message), level, logger, stream) for message in messages)
        self.write_bytes(text.encode())

    def write_output(self, data: bytes | memoryview) -> None:
        """Append output of the task itself, as it is but for secrets."""
        if self._pipe is None:
            self.write_bytes(data)
            return
        data = memoryview(data).cast("B")
        while data:
            data = data[os.write(self._pipe.writer, data) :]

    def write_bytes(self, data: bytes | memoryview) -> None:
        """Append bytes as they are."""
        data = memoryview(data).cast("B")
        try:
            size = self._size()
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

    def open_output(self) -> int:
        """Return the descriptor into which subprocesses shall write: the file, or a way that masks secrets."""
        if self.masker and self._pipe is None:
            self._pipe = MaskedPipe(self.write_bytes, self.masker)
        return self._fd if self._pipe is None else self._pipe.writer

    def close_output(self) -> None:
        """Append what is still on its way from subprocesses."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()

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
    subprocesses and of C code needs no thread to carry it, and is there also after a crash. Only when the task has
    secrets are they a pipe, from the first secret on.
    """
    keep = [os.dup(1), os.dup(2)]
    streams = sys.stdout, sys.stderr
    root = logging.getLogger()
    handlers, old_level = root.handlers[:], root.level
    out, err = _Stream(log, "stdout", "info", 1), _Stream(log, "stderr", "error", 2)

    def redirect() -> None:
        for number in (1, 2):
            os.dup2(log.open_output(), number)

    try:
        redirect()
        log.masker.listen(redirect)
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
        log.masker.forget(redirect)
        log.close_output()


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
            masked = self._log.masker.mask(self._rest)
            end = len(masked) - self._log.masker.longest  # what is held back may be the beginning of a secret
            lines.append(masked[:end])
            self._rest = masked[end:]
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
        self._log.write_output(view)
        return view.nbytes
