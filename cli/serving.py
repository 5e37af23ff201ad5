"""Running a service as a process: until SIGTERM or Ctrl-C."""

import os
import queue
import signal
import socket
from typing import Protocol


class Service(Protocol):
    """Something that works in the background."""

    def start(self) -> None:
        """Begin, or raise."""

    def stop(self) -> None:
        """End, however far it got."""


def default_name(kind: str) -> str:
    """Name a process in the registry that was given no name."""
    return f"{kind}-{socket.gethostname()}-{os.getpid()}"


def serve(service: Service) -> None:
    """Run a service until a signal asks for its end.

    Raises:
        TurnoutError: it could not start.
    """
    requests: queue.SimpleQueue[int] = queue.SimpleQueue()  # the one queue that a signal handler may put into
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: requests.put(number))
    try:
        service.start()
        requests.get()
    finally:
        service.stop()
