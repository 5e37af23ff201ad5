"""Celery's prefork pool, telling how a child ended."""

import os
import signal
from dataclasses import dataclass
from typing import Any

import structlog
from celery.concurrency.asynpool import AsynPool
from celery.concurrency.prefork import TaskPool

from turnout.executor.descendants import Subprocesses, kill_orphans

log = structlog.get_logger(__name__)

_FIRST_LOOK_S = 0.002
_LAST_LOOK_S = 2.0


@dataclass(frozen=True)
class ChildEnd:
    """A child process ended while it held an attempt.

    Attributes:
        exit_code: what the child exited with, or the negative number of the signal that ended it.
    """

    exit_code: int


class AttemptPool(AsynPool):  # type: ignore[misc]  # celery has no types
    """A pool whose error callback receives the `ChildEnd` of a lost child instead of a sentence to parse."""

    #: What the worker runs beside the pool: set once, before the first child can be lost.
    subprocesses = Subprocesses()

    def mark_as_worker_lost(self, job: Any, exitcode: int | None) -> None:
        """Hand the exit code to the job's error callback."""
        job._set(None, (False, ChildEnd(exitcode or 0)))  # noqa: SLF001  what billiard's own method does
        with self.subprocesses.at_rest() as beside:
            orphans = kill_orphans({process.pid for process in self._pool} | beside)
        if orphans:
            log.warning("attempt.orphans_killed", count=orphans)

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

    def on_stop(self) -> None:
        """Stop the pool.

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
        pool._terminate.cancel()  # noqa: SLF001  there is nothing left to clean up when the interpreter exits
