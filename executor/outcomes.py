"""Outcomes: written in batches, kept in memory until the database has them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from turnout.config.masking import Masker
from turnout.config.outage import Outage
from turnout.executor.inbox import Inbox
from turnout.executor.roster import HeldAttempt, Roster
from turnout.executor.service import Service
from turnout.metadata import attempts, wakeups
from turnout.metadata.attempts import AttemptKey, FinishedAttempt
from turnout.metadata.engine import Connection, Engine, transact
from turnout.metadata.errors import DatabaseUnavailableError, MetadataError, SchemaError
from turnout.metadata.states import Cause, Outcome, TaskState

log = structlog.get_logger(__name__)

Ended = tuple[HeldAttempt, FinishedAttempt]


class Outcomes(Service):
    """The thread that finishes attempts.

    Args:
        engine: the metadata database.
        roster: lets go of what is finished.
        masker: knows what nobody must read in the error of an attempt.
        on_finished: told, from this thread, what is committed.
    """

    def __init__(
        self, engine: Engine, roster: Roster, *, masker: Masker, on_finished: Callable[[Sequence[Ended]], None]
    ) -> None:
        super().__init__("outcomes")
        self._engine = engine
        self._roster = roster
        self._masker = masker
        self._on_finished = on_finished
        self._inbox: Inbox[Ended] = Inbox()
        self._outage = Outage("database")

    def put(self, attempt: HeldAttempt, finished: FinishedAttempt) -> None:
        """Write this outcome soon."""
        if finished.error is not None:
            finished = replace(finished, error=self._masker.mask(finished.error))
        self._inbox.put([(attempt, finished)])

    def run(self) -> None:
        """Write outcomes until stopped."""
        waiting: list[Ended] = []
        while not self._stopping.is_set():
            waiting += self._inbox.take_all(None if not waiting else 0)
            if not waiting:
                continue
            try:
                self.run_once(waiting)
            except MetadataError as error:
                self._stopping.wait(self._outage.note(error))
            else:
                self._outage.over()
                waiting = []

    def run_once(self, ended: Sequence[Ended]) -> None:
        """Write a batch of outcomes.

        An outcome that the database refuses to store must not hold up the others: the batch is halved until it stands
        alone, and then its attempt has failed for that reason.

        Raises:
            MetadataError: the database is away; try the same batch again.
        """
        try:
            accepted = transact(self._engine, lambda c: _finish(c, [finished for _, finished in ended]))
        except (DatabaseUnavailableError, SchemaError):
            raise
        except MetadataError as error:
            half = len(ended) // 2
            if half:
                self.run_once(ended[:half])
                self.run_once(ended[half:])
            else:
                self._store_otherwise(*ended[0], error)
            return
        self._let_go(ended, set(accepted))

    def _store_otherwise(self, attempt: HeldAttempt, finished: FinishedAttempt, error: MetadataError) -> None:
        log.error("attempt.outcome_unstorable", attempt_id=str(finished.key.attempt_id), error=str(error))
        plain = _unstorable(finished, error)
        accepted = transact(self._engine, lambda c: _finish(c, [plain]))
        self._let_go([(attempt, plain)], set(accepted))

    def _let_go(self, ended: Sequence[Ended], accepted: set[AttemptKey]) -> None:
        for attempt, finished in ended:
            self._roster.remove(attempt)
            if finished.key not in accepted:
                log.warning(
                    "attempt.refused",
                    attempt_id=str(finished.key.attempt_id),
                    task_instance_id=finished.key.task_instance_id,
                    outcome=finished.outcome,
                )
        self._on_finished([one for one in ended if one[1].key in accepted])

    def _wake(self) -> None:
        self._inbox.close()


def _finish(connection: Connection, finished: Sequence[FinishedAttempt]) -> list[AttemptKey]:
    accepted = attempts.finish_if_running(connection, finished)
    if accepted:
        wakeups.notify_schedulers(connection)
    return accepted


def _unstorable(finished: FinishedAttempt, error: MetadataError) -> FinishedAttempt:
    reason = str(error).replace("\x00", "")[:500]
    if finished.return_value is None:  # its error is what cannot be stored
        return replace(finished, error=f"The error of this attempt cannot be stored; see its log. {reason}"[:500])
    return replace(
        finished,
        state=TaskState.FAILED,
        outcome=Outcome.FAILED,
        cause=Cause.ERROR,
        error=f"The task succeeded, but its return value cannot be stored: {reason}",
        return_value=None,
    )
