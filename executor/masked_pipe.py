"""The way from descriptors 1 and 2 into a log for a task that has secrets: whole lines, masked."""

import array
import fcntl
import os
import select
import termios
import threading
import time
from collections.abc import Callable

from turnout.config.masking import Masker

_CHUNK = 64 << 10
#: A line that has not ended is written when it has grown to so many bytes.
_LONGEST_LINE = 16_384
#: How long an entry waits for output that was written before it.
_SETTLE_S = 0.2
_PAUSE_S = 0.0005


THREAD_NAME = "masked output"


class MaskedPipe:
    """A pipe that a thread empties.

    Args:
        write: where to write lines.
        masker: masks them.
    """

    def __init__(self, write: Callable[[bytes], None], masker: Masker) -> None:
        self._write = write
        self._masker = masker
        self._reader, self.writer = os.pipe()
        self._end_reader, self._end_writer = os.pipe()
        self._lock = threading.Lock()
        self._rest = b""
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._thread.start()

    def settle(self) -> None:
        """Wait until what has been written so far is in the log, unless somebody writes without end."""
        give_up = time.monotonic() + _SETTLE_S
        while time.monotonic() < give_up:
            # In a process that was forked meanwhile, nobody would ever release the lock.
            if not self._lock.acquire(timeout=_SETTLE_S):
                return
            try:
                if not self._waiting():
                    return
            finally:
                self._lock.release()
            time.sleep(_PAUSE_S)

    def close(self) -> None:
        """Write what is left, and end; processes that still hold the pipe cannot write any more."""
        os.write(self._end_writer, b"\n")
        self._thread.join()
        for descriptor in (self._reader, self.writer, self._end_reader, self._end_writer):
            os.close(descriptor)

    def _run(self) -> None:
        is_over, poll = False, select.poll()  # not select(), which knows no descriptor above 1023
        for descriptor in (self._reader, self._end_reader):
            poll.register(descriptor, select.POLLIN)
        while not is_over:
            is_over = self._end_reader in dict(poll.poll())
            with self._lock:
                # At the end, only what is there by now: a process that was left behind may write for ever.
                self._take(self._waiting() if is_over else _CHUNK)
        if self._rest:
            self._write(self._masker.mask_bytes(self._rest))

    def _take(self, size: int) -> None:
        taken = os.read(self._reader, size) if size else b""
        lines, end, self._rest = (self._rest + taken).rpartition(b"\n")
        if end:
            self._write(self._masker.mask_bytes(lines + end))
        if len(self._rest) > _LONGEST_LINE:
            # What is held back may be the beginning of a secret.
            masked = self._masker.mask_bytes(self._rest)
            kept = 4 * self._masker.longest  # a character has up to four bytes
            self._write(masked[:-kept])
            self._rest = masked[-kept:]

    def _waiting(self) -> int:
        size = array.array("i", [0])
        fcntl.ioctl(self._reader, termios.FIONREAD, size)
        return size[0]
