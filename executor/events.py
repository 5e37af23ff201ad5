"""Events for Flower: how each attempt ended, as Turnout sees it.

Celery has no word for `skipped`, which is a success with that result. An attempt after which the task is tried again is
`RETRY`, whether it failed or was lost; one that a person, or the end of the worker's term, has taken away is `REVOKED`.
"""

import time
from collections.abc import Sequence
from typing import Any

from celery.events import EventDispatcher
from celery.events.event import Event

from turnout.executor.roster import HeldAttempt
from turnout.metadata.attempts import FinishedAttempt
from turnout.metadata.messages import LostAttempt
from turnout.metadata.states import Outcome, TaskState


def send_outcome(attempt: HeldAttempt, finished: FinishedAttempt) -> None:
    """Send the final event of an attempt, once its outcome is committed; in the thread of the event loop only."""
    if finished.outcome in (Outcome.SUCCESS, Outcome.SKIPPED):
        runtime = time.monotonic() - attempt.started_at
        attempt.request.send_event("task-succeeded", result=str(finished.outcome), runtime=runtime)
        return
    error = finished.error or str(finished.cause or finished.outcome)
    is_over = finished.state is TaskState.FAILED
    attempt.request.send_event("task-failed" if is_over else "task-retried", **_told(error))


def send_disowned(attempt: HeldAttempt) -> None:
    """Send the final event of an attempt that is no longer ours; in the thread of the event loop only."""
    attempt.request.send_event("task-revoked", terminated=True, signum=None, expired=False)


def send_lost(dispatcher: EventDispatcher, lost: Sequence[LostAttempt]) -> None:
    """Send the final events of attempts in the name of their workers, which are dead."""
    for one in lost:
        if one.worker is not None:
            kind = "task-retried" if one.is_tried_again else "task-failed"
            dispatcher.send(kind, Event=_Of(one.worker), uuid=str(one.attempt_id), **_told(one.error))


class _Of:
    """Makes events of a worker that is not the one who sends them."""

    def __init__(self, worker: str) -> None:
        self._worker = worker

    def __call__(self, kind: str, **fields: Any) -> dict[str, Any]:
        return dict(Event(kind, **fields | {"hostname": self._worker}))


def _told(error: str) -> dict[str, str]:
    return {"exception": error, "traceback": f"{error}\nThe attempt's log has the rest."}
