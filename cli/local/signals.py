"""Ctrl-C and its like, as requests that wait to be taken."""

import os
import signal
from types import FrameType, TracebackType
from typing import Self

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Note requests to stop during a `with` block of the main thread.

    Until `calm` is called, the first request also raises KeyboardInterrupt: whatever is being started is given up.
    """

    def __init__(self) -> None:
        self._calm = False
        self._earlier: dict[signal.Signals, signal.Handlers] = {}

    def __enter__(self) -> Self:
        self._read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in STOP_SIGNALS:
            # `nohup` and a shell's `&` ignore some on purpose.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._earlier[number] = signal.signal(number, self._note)  # type: ignore[assignment]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)
        os.close(self._read_end)
        os.close(self._write_end)

    def fileno(self) -> int:
        """Name the descriptor that becomes readable with a request."""
        return self._read_end

    def calm(self) -> None:
        """From here on only note."""
        self._calm = True

    def take(self) -> bool:
        """Tell whether there was a request since the last call."""
        try:
            return bool(os.read(self._read_end, 64))
        except BlockingIOError:
            return False

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        os.write(self._write_end, b".")
        if not self._calm:
            self._calm = True
            raise KeyboardInterrupt
