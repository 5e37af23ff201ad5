"""How an attempt ended, whoever noticed it: its child, the pool that lost the child, or the worker that stopped it."""

import signal
from dataclasses import dataclass
from typing import Literal

from turnout.executor.assignment import PIPES_CLOSED, PIPES_CLOSED_EXIT, ChildReport
from turnout.executor.pool import ChildEnd
from turnout.metadata.states import Cause

Kind = Literal["success", "skipped", "failed", "lost"]

#: Causes that a child tells; all others are plain errors of the task.
_CAUSES: dict[str | None, Cause] = {
    "timeout": Cause.TIMEOUT,
    "import_timeout": Cause.IMPORT_TIMEOUT,
    "no_answer": Cause.WORKER_LOST,
}
#: Those of them that are not the task's own fault.
_INFRA = frozenset({Cause.IMPORT_TIMEOUT, Cause.WORKER_LOST})


@dataclass(frozen=True)
class Ending:
    """How an attempt ended; `lost` means through no fault of the task."""

    kind: Kind
    retry: bool = True
    cause: Cause | None = None
    error: str | None = None
    return_value: str | None = None


def of_report(report: ChildReport, stopped_for: Cause | None, why: str | None = None) -> Ending:
    """Tell the ending from the report of a child.

    A task that succeeded although it was asked to stop has succeeded. One that failed after being asked has been lost.

    Args:
        report: the report.
        stopped_for: why this worker has stopped it, if it has.
        why: the same in words, where the cause does not say all.
    """
    if report.outcome != "failed":
        return Ending(report.outcome, return_value=report.return_value)
    if stopped_for is not None:
        return of_stop(stopped_for, why)
    if report.was_stopped:
        return _killed(signal.SIGTERM)
    cause = _CAUSES.get(report.cause, Cause.ERROR)
    kind: Kind = "lost" if cause in _INFRA else "failed"
    return Ending(kind, retry=report.retry, cause=cause, error=report.error)


def of_child_end(end: ChildEnd, stopped_for: Cause | None, why: str | None = None) -> Ending:
    """Tell the ending from the way in which the child process ended without a report."""
    if stopped_for is not None:
        return of_stop(stopped_for, why)
    if end.exit_code < 0:
        return _killed(-end.exit_code, end.peak_mb)
    if end.exit_code == PIPES_CLOSED_EXIT:
        return Ending("failed", cause=Cause.CHILD_EXITED, error=PIPES_CLOSED)
    return Ending(
        "failed",
        cause=Cause.CHILD_EXITED,
        error=f"The task ended its process with exit code {end.exit_code}, without returning or raising.",
    )


def of_stop(cause: Cause, why: str | None = None) -> Ending:
    """Tell the ending of an attempt that this worker stopped."""
    if cause in (Cause.MEMORY_LIMIT, Cause.CPU_TIME_LIMIT):
        return Ending("failed", cause=cause, error=why)
    if cause is Cause.TIMEOUT:
        return Ending("failed", cause=cause, error="Ran longer than its execution_timeout, did not stop, was killed.")
    if cause is Cause.IMPORT_TIMEOUT:
        return Ending(
            "lost", cause=cause, error="Importing the DAG file took too long (setting worker.import_timeout_s)."
        )
    if cause is Cause.WORKER_LOST:
        return Ending("lost", cause=cause, error="The worker was cut off from the database, and ended the attempt.")
    return Ending("lost", cause=cause, error="The worker was stopped while the attempt ran.")


def of_confusion() -> Ending:
    """Tell the ending of an attempt that the database believes to run here, and that this worker knows nothing of."""
    return Ending(
        "lost",
        cause=Cause.WORKER_STOPPED,
        error="The worker never started the attempt: its claim was committed, but the answer was lost.",
    )


def of_fault(reason: str) -> Ending:
    """Tell the ending of an attempt whose child could not report for a reason of its own."""
    return Ending("lost", cause=Cause.WORKER_LOST, error=f"The child process could not report: {reason}")


def _killed(number: int, peak_mb: int = 0) -> Ending:
    known = {member.value for member in signal.Signals}
    name = f" ({signal.Signals(number).name})" if number in known else ""
    guess = ": probably out of memory" if number == signal.SIGKILL else ""
    peak = f" Its peak memory was {peak_mb} MiB." if peak_mb else ""
    return Ending("lost", cause=Cause.CHILD_KILLED, error=f"Killed by signal {number}{name}{guess}.{peak}")
