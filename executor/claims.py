"""Claiming: messages that have arrived become attempts that this worker owns, a batch in one transaction."""

import json
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from turnout.config.outage import Outage
from turnout.config.settings import Settings
from turnout.executor.assignment import INLINE_BYTES, Assignment
from turnout.executor.inbox import Inbox
from turnout.executor.roster import HeldAttempt, Roster
from turnout.executor.service import Service
from turnout.executor.term import Term
from turnout.executor.verdict import used_tries
from turnout.metadata import attempts
from turnout.metadata.attempts import AttemptKey, ClaimedAttempt
from turnout.metadata.engine import Connection, Engine, transact
from turnout.metadata.errors import MetadataError
from turnout.metadata.states import Cause
from turnout.metadata.versions import Content, VersionCache
from turnout.tasks.context import RunFacts

log = structlog.get_logger(__name__)

#: Celery's request.
Request = Any
_TERM_WAIT_S = 1.0
#: For a task that its run's DAG version does not have: the child will say so.
_TASK_OF_NO_VERSION = {"retry_delay_s": 0.0, "retry_exponential_backoff": 0.0, "max_retry_delay_s": None}


class Claims(Service):
    """The thread that claims.

    Args:
        settings: where DAG files and logs are, and limits.
        engine: the metadata database.
        roster: takes up what is claimed.
        term: whose worker id the claims carry.
        channel: path of the channel's socket.
        log_file: names the file into which an attempt writes its log.
        on_claimed: told, from this thread, which requests were dropped and which attempts were claimed.
        on_returned: told, from this thread, which requests went back unstarted.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        engine: Engine,
        roster: Roster,
        term: Term,
        channel: str,
        log_file: Callable[[ClaimedAttempt], Path],
        on_claimed: Callable[[Sequence[Request], Sequence[HeldAttempt]], None],
        on_returned: Callable[[Sequence[Request]], None],
    ) -> None:
        super().__init__("claims")
        self._settings = settings
        self._engine = engine
        self._roster = roster
        self._term = term
        self._channel = channel
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
        return HeldAttempt(attempt, task, request, self._assign(attempt))

    def _assign(self, attempt: ClaimedAttempt) -> Assignment:
        fetch_conf = bool(attempt.conf) and len(json.dumps(attempt.conf)) > INLINE_BYTES
        return Assignment(
            facts=RunFacts(
                dag_id=attempt.dag_id,
                run_id=attempt.run_id,
                task_id=attempt.task_id,
                attempt_id=str(attempt.attempt_id),
                run_type=attempt.run_type,
                logical_date=attempt.logical_date,
                data_interval_start=attempt.data_interval_start,
                data_interval_end=attempt.data_interval_end,
                run_after=attempt.run_after,
                conf={} if fetch_conf else attempt.conf,
                map_index=attempt.map_index,
                try_number=used_tries(attempt),
                max_tries=attempt.max_tries,
            ),
            dag_file=str(self._settings.dags_path / attempt.file_path),
            dags_folder=str(self._settings.dags_path),
            log_file=str(self._log_file(attempt)),
            log_max_bytes=self._settings.worker.max_log_per_attempt_mb << 20,
            token=secrets.token_hex(16),
            channel=self._channel,
            fetch_conf=fetch_conf,
            import_timeout_s=self._settings.worker.import_timeout_s,
            xcom_max_bytes=self._settings.xcom.max_bytes,
        )

    def _wake(self) -> None:
        self._inbox.close()


def key_of(request: Request) -> AttemptKey:
    """Read the identity of the attempt from its message."""
    return AttemptKey(int(request.request_dict["turnout_ti"]), UUID(request.id))
