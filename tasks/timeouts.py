"""The soft end of what runs too long."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType

from turnout.tasks.signals import TaskTimeout


@contextmanager
def time_limit(limit: timedelta | None) -> Iterator[None]:
    """Raise `TaskTimeout` inside a block that runs longer than a limit.

    It needs the alarm signal, hence the main thread; elsewhere the limit is left to whoever watches the process.
    """
    if limit is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    with alarm(limit.total_seconds(), TaskTimeout(f"it ran longer than its execution_timeout of {limit}")):
        yield


@contextmanager
def alarm(after_s: float, error: BaseException) -> Iterator[None]:
    """Raise an error inside a block of the main thread that runs longer than so many seconds."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, after_s)
    try:
        yield
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            signal.signal(signal.SIGALRM, before)
