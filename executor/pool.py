"""Celery's prefork pool, telling how a child ended."""

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
