"""Claiming: messages that have arrived become attempts that this worker owns, a batch in one transaction."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from turnout.config.outage import Outage
from turnout.executor.assigning import Assigner
from turnout.executor.inbox import Inbox
from turnout.executor.roster import HeldAttempt, Roster
from turnout.executor.service import Service
from turnout.executor.term import Term
from turnout.metadata import attempts
from turnout.metadata.attempts import AttemptKey, ClaimedAttempt
from turnout.metadata.engine import Connection, Engine, transact
from turnout.metadata.errors import MetadataError
from turnout.metadata.states import Cause
from turnout.metadata.versions import Content, VersionCache

log = structlog.get_logger(__name__)

#: Celery's request.
Request = Any
_TERM_WAIT_S = 1.0
#: For a task that its run's DAG version does not have: the child will say so.
_TASK_OF_NO_VERSION = {"retry_delay_s": 0.0, "retry_exponential_backoff": 0.0, "max_retry_delay_s": None}


class Claims(Service):
    """The thread that claims.

    Args:
        engine: the metadata database.
        roster: takes up what is claimed.
        term: whose worker id the claims carry.
        assigner: writes the assignments.
        log_file: names the file into which an attempt writes its log.
        on_claimed: told, from this thread, which requests were dropped and which attempts were claimed.
        on_returned: told, from this thread, which requests went back unstarted.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        roster: Roster,
        term: Term,
        assigner: Assigner,
        log_file: Callable[[ClaimedAttempt], Path],
        on_claimed: Callable[[Sequence[Request], Sequence[HeldAttempt]], None],
        on_returned: Callable[[Sequence[Request]], None],
    ) -> None:
        super().__init__("claims")
        self._engine = engine
        self._roster = roster
        self._term = term
        self._assigner = assigner
        self._log_file = log_file
        self._on_claimed = on_claimed
        self._on_returned = on_returned
        self._inbox: Inbox[Request] = Inbox()
        self._versions = VersionCache()
        self._outage = Outage("database")
        self._returns = False

    def put(self, requests: Sequence[Request]) -> None:
        """Claim these soon."""
        self._inbox.put(requests)

    def set_returning(self, *, returns: bool) -> None:
        """Give back whatever is not claimed yet, and all that still arrives; or claim again."""
        self._returns = returns

    def run(self) -> None:
        """Claim until stopped."""
        waiting: list[Request] = []
        while not self._stopping.is_set():
            waiting += self._inbox.take_all(None if not waiting else 0)
            if not waiting or not (self._returns or self._term.wait(_TERM_WAIT_S)):
                continue
            try:
                self.run_once(waiting)
            except MetadataError as error:
                self._stopping.wait(self._outage.note(error))
            else:
                self._outage.over()
                waiting = []

    def run_once(self, requests: Sequence[Request]) -> None:
        """Claim a batch of requests, or give it back.

        Raises:
            MetadataError: the database is away; try the same batch again.
        """
        by_key = {key_of(request): request for request in requests}
        if self._returns:
            transact(self._engine, lambda c: attempts.give_back_queued(c, list(by_key), Cause.WORKER_STOPPED))
            self._on_returned(requests)
            return
        self._roster.begin_claim(frozenset(by_key))
        try:
            claimed = transact(self._engine, lambda c: self._claim(c, list(by_key)))
        except MetadataError:
            self._roster.end_claim([])
            raise
        held = [self._hold(attempt, contents, by_key[attempt.key]) for attempt, contents in claimed]
        self._roster.end_claim(held)
        started = {id(attempt.request) for attempt in held}
        dropped = [request for request in requests if id(request) not in started]
        self._on_claimed(dropped, held)

    def _claim(self, connection: Connection, keys: list[AttemptKey]) -> list[tuple[ClaimedAttempt, Content]]:
        claimed = attempts.claim_queued(connection, self._term.worker_id, keys)
        contents = self._versions.get(connection, {attempt.dag_version_id for attempt in claimed})
        return [(attempt, contents[attempt.dag_version_id]) for attempt in claimed]

    def _hold(self, attempt: ClaimedAttempt, content: Content, request: Request) -> HeldAttempt:
        task = content["tasks"].get(attempt.task_id, _TASK_OF_NO_VERSION)
        assignment = self._assigner.assign(attempt, self._log_file(attempt))
        return HeldAttempt(attempt, task, request, assignment)

    def _wake(self) -> None:
        self._inbox.close()


def key_of(request: Request) -> AttemptKey:
    """Read the identity of the attempt from its message."""
    return AttemptKey(int(request.request_dict["turnout_ti"]), UUID(request.id))
