"""Events for Flower: how an attempt ended, as Turnout sees it."""

import time

from turnout.executor.roster import HeldAttempt
from turnout.metadata.attempts import FinishedAttempt
from turnout.metadata.states import Outcome


def send_outcome(attempt: HeldAttempt, finished: FinishedAttempt) -> None:
    """Send the final event of an attempt, once its outcome is committed; in the thread of the event loop only."""
    if finished.outcome in (Outcome.SUCCESS, Outcome.SKIPPED):
        runtime = time.monotonic() - attempt.started_at
        attempt.request.send_event("task-succeeded", result=str(finished.outcome), runtime=runtime)
        return
    error = finished.error or str(finished.cause or finished.outcome)
    attempt.request.send_event("task-failed", exception=error, traceback=f"{error}\nThe attempt's log has the rest.")
