"""The hand-off: from Celery's consumer to the claim thread, from there to the pool, and from the pool to the outcomes.

All of its methods run in the thread of Celery's event loop. Celery's own execution and tracing of tasks is not used:
`receive` takes the place of the worker's `_process_task`.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import structlog
from celery.worker.state import task_ready

from turnout.executor import ending
from turnout.executor.assignment import ChildReport
from turnout.executor.child import ChildSpoiltError, run_attempt
from turnout.executor.claims import Request, key_of
from turnout.executor.ending import Ending
from turnout.executor.events import send_disowned, send_outcome
from turnout.executor.loop_calls import LoopCalls
from turnout.executor.pool import ChildEnd
from turnout.executor.roster import HeldAttempt, Roster
from turnout.executor.service import fatal_errors
from turnout.executor.stopping import Stopper
from turnout.executor.verdict import judge
from turnout.metadata.attempts import FinishedAttempt

log = structlog.get_logger(__name__)

#: A worker all of whose slots are taken for so long takes no more messages. Short tasks never come to it: to stop and
#: to begin again costs two round trips to the broker.
FULL_AFTER_S = 0.1


class Claimer(Protocol):
    """What the hand-off needs of the claim thread."""

    def put(self, requests: Sequence[Request]) -> None:
        """Claim these soon."""

    def set_returning(self, *, returns: bool) -> None:
        """Give back whatever is not claimed yet, and all that still arrives; or claim again."""


class HandOff:
    """Passes requests on, never more at a time than there are slots.

    Args:
        calls: to the event loop.
        slots: attempts that may run at the same time.
        roster: the attempts held.
        stopper: told when attempts start.
        max_infra_retries: attempts that may be lost before a task fails.
        watch: told of attempts whose child has begun.
        put_outcome: takes the outcome of an attempt.
        on_full: told whether all slots are taken, and have been for a while; None for a broker that delivers nothing
            to a worker without a free slot.
        on_idle: called when the hand-off is draining and nothing is left.
    """

    def __init__(
        self,
        *,
        calls: LoopCalls,
        slots: int,
        roster: Roster,
        stopper: Stopper,
        max_infra_retries: int,
        watch: Callable[[HeldAttempt], None],
        put_outcome: Callable[[HeldAttempt, FinishedAttempt], None],
        on_full: Callable[[bool], None] | None,
        on_idle: Callable[[], None],
    ) -> None:
        self._calls = calls
        self._free = slots
        self._roster = roster
        self._stopper = stopper
        self._max_infra_retries = max_infra_retries
        self._watch = watch
        self._put_outcome = put_outcome
        self._on_full = on_full
        self._on_idle = on_idle
        self._waiting: deque[Request] = deque()
        self._in_claim = 0
        self.is_draining = False
        self._is_closed = False
        self._is_full = False
        self._full_since: float | None = None  # monotonic
        self._claimer: Claimer | None = None
        self._pool: Any = None
        self.duplicates_dropped = 0

    def connect(self, pool: Any, claimer: Claimer) -> None:
        """Connect to the pool and the claim thread."""
        self._pool, self._claimer = pool, claimer

    def receive(self, request: Request) -> None:
        """Take a request that has arrived from the broker."""
        try:
            key_of(request)
        except (KeyError, ValueError, TypeError):
            log.exception("message.unreadable", task_id=request.id)
            self._drop(request)
            return
        self._waiting.append(request)
        self._admit()

    def take_claimed(self, dropped: Sequence[Request], held: Sequence[HeldAttempt]) -> None:
        """Take the result of a claim: acknowledge all of it, drop what is not ours, start what is."""
        self._in_claim -= len(dropped) + len(held)
        for request in dropped:
            self.duplicates_dropped += 1
            log.info("attempt.duplicate_dropped", attempt_id=request.id, count=self.duplicates_dropped)
            self._drop(request)
            self._free += 1
        for attempt in held:
            attempt.request.acknowledge()
            self._start(attempt)
        self._admit()

    def take_returned(self, requests: Sequence[Request]) -> None:
        """Take note that requests went back to `scheduled` unstarted: their messages are stale now."""
        self._in_claim -= len(requests)
        self._free += len(requests)
        for request in requests:
            self._drop(request)
        log.info("attempt.returned", count=len(requests))
        self._admit()

    def take_finished(self, finished: Sequence[tuple[HeldAttempt, FinishedAttempt]]) -> None:
        """Take note that outcomes are committed."""
        for attempt, outcome in finished:
            send_outcome(attempt, outcome)
        self._end_drain()

    def drain(self) -> None:
        """Start nothing more: return what has not started, and call `on_idle` when all that runs has finished."""
        self.is_draining = True
        self.set_closed(closed=True)

    def set_closed(self, *, closed: bool) -> None:
        """Start nothing new, and return what has not started; or go on. What runs goes on in any case."""
        self._is_closed = closed or self.is_draining
        if self._claimer is not None:
            self._claimer.set_returning(returns=self._is_closed)
        self._admit()

    def _admit(self) -> None:
        batch = []
        while self._waiting and (self._free > 0 or self._is_closed):
            batch.append(self._waiting.popleft())
            self._free -= 1
        if batch and self._claimer is not None:
            self._in_claim += len(batch)
            self._claimer.put(batch)
        self._mind_fullness()
        self._end_drain()

    # What talks to the broker is a call of its own: where it fails, nothing else is left half done.

    def _mind_fullness(self) -> None:
        if self._on_full is None:
            return
        if self._free > 0:
            self._full_since = None
            if self._is_full:
                self._is_full = False
                self._calls.put(self._on_full, False)
        elif self._full_since is None:
            self._full_since = time.monotonic()
            self._calls.put_later(FULL_AFTER_S, self._look_whether_full, self._full_since)

    def _look_whether_full(self, since: float) -> None:
        if self._full_since == since and not self._is_full:  # no slot has become free meanwhile
            self._is_full = True
            self._calls.put(self._leave_to_others)

    def _leave_to_others(self) -> None:
        """Take no more messages, and give back those that have arrived: other workers may have a slot."""
        if self._is_full and self._on_full is not None:
            self._on_full(True)
            while self._waiting:
                request = self._waiting.popleft()
                request.reject(requeue=True)
                task_ready(request)

    def _end_drain(self) -> None:
        if self.is_draining and not self._waiting and not self._in_claim and not len(self._roster):
            self._on_idle()

    def _drop(self, request: Request) -> None:
        request.acknowledge()
        task_ready(request)
        request.send_event("task-rejected")

    def _start(self, attempt: HeldAttempt) -> None:
        self._pool.apply_async(
            run_attempt,
            args=(attempt.assignment,),
            accept_callback=lambda pid, accepted_at: self._on_accepted(attempt, pid, accepted_at),
            callback=lambda report: self._on_report(attempt, report),
            error_callback=lambda error: self._on_lost(attempt, error),
            correlation_id=attempt.request.id,
        )

    # The pool logs what its callbacks raise and goes on, which would leave an attempt unfinished for good.

    def _on_accepted(self, attempt: HeldAttempt, pid: int, accepted_at: float) -> None:
        with fatal_errors("hand-off"):
            attempt.pid = pid
            attempt.started_at = accepted_at
            attempt.request.on_accepted(pid, accepted_at)
            self._stopper.expect_end(attempt)
            self._stopper.remind(attempt)
            self._watch(attempt)

    def _on_report(self, attempt: HeldAttempt, report: ChildReport) -> None:
        with fatal_errors("hand-off"):
            found = ending.of_report(report, attempt.stopped_for, attempt.why)
            if report.return_value_sent:
                found = replace(found, return_value=attempt.return_value)
            self._end(attempt, found)

    def _on_lost(self, attempt: HeldAttempt, error: Any) -> None:
        with fatal_errors("hand-off"):
            if isinstance(error, ChildEnd):
                self._end(attempt, ending.of_child_end(error, attempt.stopped_for, attempt.why))
                return
            fault = getattr(error, "exception", error)
            reason = getattr(fault, "reason", str(fault))
            log.error("attempt.child_fault", attempt_id=attempt.request.id, error=reason)
            if isinstance(fault, ChildSpoiltError) and fault.report is not None:
                self._on_report(attempt, fault.report)
            else:
                self._end(attempt, ending.of_fault(reason))

    def _end(self, attempt: HeldAttempt, found: Ending) -> None:
        attempt.has_ended = True
        self._free += 1
        task_ready(attempt.request, successful=found.kind == "success")
        if attempt.is_disowned:
            self._roster.remove(attempt)
            send_disowned(attempt)
        else:
            self._put_outcome(attempt, judge(attempt.claimed, attempt.task, found, self._max_infra_retries))
        self._admit()
