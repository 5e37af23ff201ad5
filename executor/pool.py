"""Celery's prefork pool, telling how a child ended."""

import os
import signal
from dataclasses import dataclass
from typing import Any

from celery.concurrency.asynpool import AsynPool
from celery.concurrency.prefork import TaskPool


@dataclass(frozen=True)
class ChildEnd:
    """A child process ended while it held an attempt.

    Attributes:
        exit_code: what the child exited with, or the negative number of the signal that ended it.
    """

    exit_code: int


class AttemptPool(AsynPool):  # type: ignore[misc]  # celery has no types
    """A pool whose error callback receives the `ChildEnd` of a lost child instead of a sentence to parse."""

    def mark_as_worker_lost(self, job: Any, exitcode: int | None) -> None:
        """Hand the exit code to the job's error callback."""
        job._set(None, (False, ChildEnd(exitcode or 0)))  # noqa: SLF001  what billiard's own method does


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
