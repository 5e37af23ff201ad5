"""Ending attempts before they end by themselves: by deadline, or because the worker must give them up."""

import os
import signal
import threading
import time
from contextlib import suppress

import structlog

from turnout.executor.roster import HeldAttempt, Roster
from turnout.executor.service import Service
from turnout.metadata.states import Cause

log = structlog.get_logger(__name__)


class Stopper(Service):
    """Sends SIGTERM when asked, and SIGKILL when a deadline has passed.

    It has its own thread and clock, so that limits hold while the event loop is busy reaching for the broker.

    Args:
        roster: the attempts held.
        kill_grace_s: time between asking an attempt to stop and killing it.
        import_timeout_s: longest import of a DAG file.
    """

    def __init__(self, roster: Roster, *, kill_grace_s: float, import_timeout_s: float) -> None:
        super().__init__("stopper")
        self._roster = roster
        self._grace_s = kill_grace_s
        self._import_timeout_s = import_timeout_s
        self._changed = threading.Condition()
        self._next_look: float | None = None

    def expect_end(self, attempt: HeldAttempt) -> None:
        """Set the deadline of an attempt that now executes; its child enforces the execution time-out itself first."""
        limit_s = attempt.task.get("execution_timeout_s")
        if attempt.stopped_for is None:
            self._set_deadline(attempt, None if limit_s is None else limit_s + self._grace_s, Cause.TIMEOUT)

    def expect_import(self, attempt: HeldAttempt) -> None:
        """Set the deadline of an attempt that now imports its DAG file; its child limits the time itself first."""
        if attempt.stopped_for is None:
            self._set_deadline(attempt, self._import_timeout_s + self._grace_s, Cause.IMPORT_TIMEOUT)

    def stop_attempt(self, attempt: HeldAttempt, cause: Cause) -> None:
        """Ask an attempt to stop, and kill it when it has not after the grace period."""
        if attempt.stopped_for is None:
            attempt.stopped_for = cause
            self._set_deadline(attempt, self._grace_s, cause)
        self.remind(attempt)

    def kill_attempt(self, attempt: HeldAttempt, cause: Cause) -> None:
        """End an attempt that must not go on for another moment."""
        if attempt.stopped_for is None:
            attempt.stopped_for = cause
        log.warning("attempt.killed", attempt_id=str(attempt.claimed.attempt_id), cause=cause)
        _signal(attempt, signal.SIGKILL)

    def remind(self, attempt: HeldAttempt) -> None:
        """Send SIGTERM to the child of an attempt that was asked to stop, if it has one yet."""
        if attempt.stopped_for is not None:
            _signal(attempt, signal.SIGTERM)

    def run(self) -> None:
        """Kill what is overdue until stopped."""
        while not self._stopping.is_set():
            with self._changed:
                now = time.monotonic()
                self._next_look = min((a.deadline for a in self._roster.running() if a.deadline), default=None)
                if self._next_look is None or self._next_look > now:
                    self._changed.wait(None if self._next_look is None else self._next_look - now)
                    continue
            self._kill_overdue(now)

    def _kill_overdue(self, now: float) -> None:
        for attempt in self._roster.running():
            if attempt.deadline is not None and attempt.deadline <= now:
                attempt.stopped_for = attempt.deadline_cause
                attempt.deadline = None
                log.warning("attempt.killed", attempt_id=str(attempt.claimed.attempt_id), cause=attempt.stopped_for)
                _signal(attempt, signal.SIGKILL)

    def _set_deadline(self, attempt: HeldAttempt, seconds: float | None, cause: Cause) -> None:
        attempt.deadline_cause = cause
        attempt.deadline = None if seconds is None else time.monotonic() + seconds
        if attempt.deadline is not None and (self._next_look is None or attempt.deadline < self._next_look):
            self._wake()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _signal(attempt: HeldAttempt, number: signal.Signals) -> None:
    if attempt.pid is not None and not attempt.has_ended:
        with suppress(ProcessLookupError):
            os.kill(attempt.pid, number)
