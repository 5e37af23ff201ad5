"""A background thread whose death is never silent."""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

log = structlog.get_logger(__name__)

#: os.EX_SOFTWARE: an internal error.
EXIT_CODE = 70


class Service(ABC):
    """A thread that runs `run` until `stop`.

    A worker with one part missing would hold its lease and do nothing, so a bug in any service ends the whole process,
    loudly: its children die with it, its lease expires, and other workers take over.
    """

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float = 10) -> None:
        """Ask the thread to end and wait for it; harmless when it was never started, or is over."""
        self._stopping.set()
        self._wake()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    @abstractmethod
    def run(self) -> None:
        """Work until `self._stopping` is set."""

    def _wake(self) -> None:  # noqa: B027  a service that waits only for `_stopping` needs none
        """Interrupt whatever `run` waits for."""

    def _guarded(self) -> None:
        with fatal_errors(self._thread.name):
            self.run()


@contextmanager
def fatal_errors(part: str) -> Iterator[None]:
    """End the process, loudly, for any exception in the block."""
    try:
        yield
    except BaseException:
        log.critical("worker.part_died", part=part, exc_info=True)
        os._exit(EXIT_CODE)
