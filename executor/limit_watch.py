"""The limits of memory and CPU time that a task has: watched from outside, for all its processes together."""

import threading
from dataclasses import dataclass

import structlog

from turnout.executor.roster import HeldAttempt, Roster
from turnout.executor.service import Service
from turnout.executor.stopping import Stopper
from turnout.executor.usage import usage_of
from turnout.metadata.states import Cause

log = structlog.get_logger(__name__)

#: How often attempts with limits are looked at. A look costs some 0.13 ms for each process: with 16 of them the thread
#: needs 0.8 % of a core (December 2026).
LOOK_S = 0.25
_MIB = 1 << 20


@dataclass(frozen=True)
class _Watched:
    attempt: HeldAttempt
    pid: int
    cpu_before_s: float  # of its child in earlier attempts

    @property
    def memory_limit_mb(self) -> int | None:
        limit: int | None = self.attempt.task.get("memory_limit_mb")
        return limit

    @property
    def cpu_limit_s(self) -> float | None:
        limit: float | None = self.attempt.task.get("cpu_time_limit_s")
        return limit


class LimitWatch(Service):
    """The thread that looks at what attempts use; it sleeps while none has a limit.

    Args:
        roster: the attempts held.
        stopper: ends those that use too much.
    """

    def __init__(self, roster: Roster, stopper: Stopper) -> None:
        super().__init__("limit-watch")
        self._roster = roster
        self._stopper = stopper
        self._watched: dict[int, _Watched] = {}  # by pid
        self._news = threading.Event()

    def look_after(self, attempt: HeldAttempt) -> None:
        """Watch an attempt whose child has just begun, if its task has limits."""
        limits = attempt.task.get("memory_limit_mb"), attempt.task.get("cpu_time_limit_s")
        if attempt.pid is not None and any(limits):
            self._watched[attempt.pid] = _Watched(attempt, attempt.pid, usage_of(attempt.pid).cpu_s)
            self._news.set()

    def run(self) -> None:
        """Look until stopped."""
        while not self._stopping.is_set():
            self._news.wait(LOOK_S if self._watched else None)
            self._news.clear()
            self.run_once()
            self._stopping.wait(LOOK_S if self._watched else 0)

    def run_once(self) -> None:
        """Look at every attempt that is watched, once."""
        for pid, watched in list(self._watched.items()):
            if watched.attempt.has_ended or watched.attempt.stopped_for is not None:
                if self._watched.get(pid) is watched:  # its child may have begun another one
                    del self._watched[pid]
            else:
                self._compare(watched)

    def _compare(self, watched: _Watched) -> None:
        used, attempt = usage_of(watched.pid), watched.attempt
        memory_mb, cpu_s = used.memory_bytes // _MIB, used.cpu_s - watched.cpu_before_s
        if attempt.has_ended:  # while it was measured
            return
        if watched.memory_limit_mb is not None and memory_mb > watched.memory_limit_mb:
            attempt.why = (
                f"Used {memory_mb} MiB of memory, more than its memory_limit_mb of {watched.memory_limit_mb}, and was "
                "killed: raise the limit, or let the task hold less at a time."
            )
            self._stopper.kill_attempt(attempt, Cause.MEMORY_LIMIT)
        elif watched.cpu_limit_s is not None and cpu_s > watched.cpu_limit_s:
            attempt.why = (
                f"Used {cpu_s:.1f} s of CPU time, more than its cpu_time_limit of {watched.cpu_limit_s:g} s, and was "
                "ended: raise the limit, or look what keeps the task busy."
            )
            self._stopper.stop_attempt(attempt, Cause.CPU_TIME_LIMIT)

    def _wake(self) -> None:
        self._news.set()
