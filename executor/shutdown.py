"""Shutting down: what SIGTERM and Ctrl-C mean, the first, the second and the third time."""

import os
import queue
import signal
from collections.abc import Callable
from types import FrameType

import structlog

from turnout.executor.roster import Roster
from turnout.executor.service import Service
from turnout.executor.stopping import Stopper
from turnout.metadata.states import Cause

log = structlog.get_logger(__name__)


class Shutdown(Service):
    """The thread that acts on signals, since a signal handler itself may not take a lock.

    The first signal drains the worker: nothing more starts, what runs finishes. The second stops what runs and hands it
    back. The third ends the process.

    Args:
        roster: the attempts held.
        stopper: ends them.
        drain: begins the drain; called from this thread.
        hurry: ends what runs beside attempts.
    """

    def __init__(self, roster: Roster, stopper: Stopper, drain: Callable[[], None], hurry: Callable[[], None]) -> None:
        super().__init__("shutdown")
        self._roster = roster
        self._stopper = stopper
        self._drain = drain
        self._hurry = hurry
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._received = 0

    def listen(self) -> None:
        """Install the signal handlers; in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def run(self) -> None:
        """Act on signals until stopped."""
        while not self._stopping.is_set():
            number = self._signals.get()
            if number:
                self._received += 1
                self._act(signal.Signals(number).name)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals.put(number)  # SimpleQueue.put is reentrant

    def _act(self, name: str) -> None:
        running = self._roster.running()
        if self._received == 1:
            log.info("worker.draining", signal=name, running=len(running))
            self._drain()
        elif self._received == 2:  # noqa: PLR2004
            log.warning("worker.stopping_attempts", signal=name, running=len(running))
            for attempt in running:
                self._stopper.stop_attempt(attempt, Cause.WORKER_STOPPED)
            self._hurry()
        else:
            log.error("worker.gave_up", signal=name, running=len(running))
            os._exit(1)

    def _wake(self) -> None:
        self._signals.put(0)
