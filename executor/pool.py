"""Celery's prefork pool, telling how a child ended."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import structlog
from billiard.context import ForkProcess
from billiard.popen_fork import Popen
from celery.concurrency.asynpool import AsynPool
from celery.concurrency.prefork import TaskPool

from turnout.executor.descendants import Subprocesses, kill_orphans, reap_orphans

log = structlog.get_logger(__name__)

_FIRST_LOOK_S = 0.002
_LAST_LOOK_S = 2.0
_REAPING_INTERVAL_S = 5.0


@dataclass(frozen=True)
class ChildEnd:
    """A child process ended while it held an attempt.

    Attributes:
        exit_code: what the child exited with, or the negative number of the signal that ended it.
        peak_mb: the most resident memory (MiB) that it had in its last attempt, or one of the processes that it has
            waited for ever had.
    """

    exit_code: int
    peak_mb: int = 0


class _WeighedPopen(Popen):  # type: ignore[misc]  # billiard has no types
    """A child that leaves behind how much memory it used."""

    peak_mb = 0
    returncode: int | None

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        """Look whether it has ended: as billiard does, by the one call that also tells what it used."""
        if self.returncode is None:
            with suppress(ChildProcessError):
                pid, status, usage = os.wait4(self.pid, flag)
                if pid == self.pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
                    self.peak_mb = usage.ru_maxrss >> 10
        return self.returncode


class _WeighedProcess(ForkProcess):  # type: ignore[misc]
    @staticmethod
    def _Popen(process: Any) -> _WeighedPopen:  # noqa: N802  billiard's name
        return _WeighedPopen(process)


class AttemptPool(AsynPool):  # type: ignore[misc]  # celery has no types
    """A pool whose error callback receives the `ChildEnd` of a lost child instead of a sentence to parse."""

    #: What the worker runs beside the pool: set once, before the first child can be lost.
    subprocesses = Subprocesses()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._children: dict[int, Any] = {}
        self.subprocesses.watchdog.start()
        super().__init__(*args, **kwargs)

    def Process(self, *args: Any, **kwargs: Any) -> _WeighedProcess:  # noqa: N802  billiard's name
        """Make a child."""
        return _WeighedProcess(*args, **kwargs)

    def _create_worker_process(self, i: int) -> Any:
        process = super()._create_worker_process(i)
        self._children = {child.pid: child for child in (*self._pool, process)}
        self.subprocesses.watchdog.look_after(process.pid)
        return process

    def mark_as_worker_lost(self, job: Any, exitcode: int | None) -> None:
        """Hand the exit code to the job's error callback."""
        job._set(None, (False, ChildEnd(exitcode or 0, self._peak_mb(job))))  # noqa: SLF001  what billiard does
        self.kill_orphans()

    def kill_orphans(self) -> None:
        """Kill what the dead have left running."""
        with self._own() as own:
            killed = kill_orphans(own)
        if killed:
            log.warning("worker.orphans_killed", count=killed)

    def register_with_event_loop(self, hub: Any) -> None:
        """Be told of what happens to the children, and to the watchdog."""
        super().register_with_event_loop(hub)
        hub.add_reader(self.subprocesses.watchdog.line, self._renew_watchdog, hub)

    def _renew_watchdog(self, hub: Any) -> None:
        watchdog = self.subprocesses.watchdog
        log.warning("watchdog.ended", pid=watchdog.pid)
        hub.remove_reader(watchdog.line)
        with self.subprocesses.at_rest() as beside:
            watchdog.start({*self._pids(), *beside})
        hub.add_reader(watchdog.line, self._renew_watchdog, hub)

    @property
    def timers(self) -> dict[Callable[[], None], float]:
        """What the event loop calls from time to time."""
        return {**super().timers, self._reap_orphans: _REAPING_INTERVAL_S}

    def _reap_orphans(self) -> None:
        with self._own() as own:
            reap_orphans(own)

    @contextmanager
    def _own(self) -> Iterator[set[int]]:
        """Start no process for the time of the block, which is told the pids of those that there are."""
        with self.subprocesses.at_rest() as beside:
            yield {*self._pids(), *beside, self.subprocesses.watchdog.pid or 0}

    def _pids(self) -> set[int]:
        return {process.pid for process in self._pool}

    def _peak_mb(self, job: Any) -> int:
        ended = [self._children[pid] for pid in job.worker_pids() if pid in self._children]
        return max((child._popen.peak_mb for child in ended if child._popen is not None), default=0)  # noqa: SLF001

    def _event_process_exit(self, hub: Any, proc: Any) -> None:
        """Look for an exited child until it can be waited for.

        A dying process closes its pipes, which is what calls this, before it can be waited for; Celery would look only
        once, and then not again before five seconds have passed.
        """
        super()._event_process_exit(hub, proc)
        self._look_again(hub, proc, _FIRST_LOOK_S)

    def _look_again(self, hub: Any, proc: Any, delay_s: float) -> None:
        if proc.exitcode is None and delay_s < _LAST_LOOK_S:
            hub.call_later(delay_s, self._look_again, hub, proc, delay_s * 2)
        self.maintain_pool()


class AttemptTaskPool(TaskPool):  # type: ignore[misc]
    """The pool that `worker_pool` names."""

    Pool = AttemptPool
    _pool: Any

    def kill_orphans(self) -> None:
        """Kill what a process beside the pool has left running."""
        if self._pool is not None:
            self._pool.kill_orphans()

    def on_stop(self) -> None:
        """Stop the pool, and what it has left running.

        A worker stops when none of its children has an attempt any more. Asked politely, each would first sleep for a
        second (billiard's `_do_exit`) and Celery would look every half second; killed, they are gone at once.
        """
        pool, self._pool = self._pool, None
        if pool is None:
            return
        pool.close()
        for process in pool._pool:  # noqa: SLF001  billiard tells its processes nowhere else
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        pool.kill_orphans()
        pool._terminate.cancel()  # noqa: SLF001  there is nothing left to clean up when the interpreter exits
