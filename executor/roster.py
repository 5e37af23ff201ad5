"""The roster: the attempts that this worker holds, from the commit of their claim to the commit of their outcome."""

import threading
from dataclasses import dataclass, field
from typing import Any

from turnout.executor.assignment import Assignment
from turnout.metadata.attempts import AttemptKey, ClaimedAttempt
from turnout.metadata.states import Cause


@dataclass(eq=False)
class HeldAttempt:
    """An attempt that this worker has claimed and not yet finished."""

    claimed: ClaimedAttempt
    task: dict[str, Any]  # its entry in the serialized DAG
    request: Any  # Celery's request
    assignment: Assignment
    pid: int | None = None  # of the child that runs it, once one does
    has_ended: bool = False  # its outcome is known and waits to be written
    stopped_for: Cause | None = None
    why: str | None = None  # the same in words, where the cause does not say all
    is_disowned: bool = False  # it is no longer ours: nothing may be reported
    deadline: float | None = None  # monotonic time at which it is killed
    deadline_cause: Cause = Cause.TIMEOUT
    return_value: str | None = None  # came over the channel
    started_at: float = field(default=0.0)  # monotonic

    @property
    def key(self) -> AttemptKey:
        """The identity of the attempt."""
        return self.claimed.key


class Roster:
    """The attempts held, for all threads of the worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[AttemptKey, HeldAttempt] = {}
        self._tokens: dict[str, HeldAttempt] = {}
        self._claiming: frozenset[AttemptKey] = frozenset()
        self.finished = 0

    def begin_claim(self, keys: frozenset[AttemptKey]) -> None:
        """Note attempts whose claim may be committed at any moment."""
        self._claiming = keys

    def end_claim(self, attempts: list[HeldAttempt]) -> None:
        """Take up the attempts whose claim is committed."""
        with self._lock:
            for attempt in attempts:
                self._held[attempt.key] = attempt
                self._tokens[attempt.assignment.token] = attempt
            self._claiming = frozenset()

    def remove(self, attempt: HeldAttempt) -> None:
        """Let go of an attempt whose outcome is committed or no longer wanted."""
        with self._lock:
            self._held.pop(attempt.key, None)
            self._tokens.pop(attempt.assignment.token, None)
            self.finished += 1

    def let_ask(self, caller: HeldAttempt) -> None:
        """Let what is no attempt of this worker's, but works for one, ask over the channel."""
        with self._lock:
            self._tokens[caller.assignment.token] = caller

    def let_ask_no_more(self, caller: HeldAttempt) -> None:
        """Answer it no longer."""
        with self._lock:
            self._tokens.pop(caller.assignment.token, None)

    def running(self) -> list[HeldAttempt]:
        """List the attempts whose outcome is not known yet."""
        with self._lock:
            return [attempt for attempt in self._held.values() if not attempt.has_ended]

    def knows(self, key: AttemptKey) -> bool:
        """Tell whether an attempt is held or being claimed."""
        with self._lock:
            return key in self._held or key in self._claiming

    def with_token(self, token: str) -> HeldAttempt | None:
        """Find the attempt that a token belongs to."""
        return self._tokens.get(token)

    def __len__(self) -> int:
        return len(self._held)
