"""A lane: a thread of the worker that claims callbacks and has them run in its own process, one after the other."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import structlog

from turnout.config.masking import Masker
from turnout.config.outage import Outage
from turnout.config.settings import Settings
from turnout.executor.assigning import Assigner
from turnout.executor.assignment import CallbackAssignment
from turnout.executor.callback_process import CallbackProcess
from turnout.executor.descendants import Subprocesses
from turnout.executor.roster import HeldAttempt, Roster
from turnout.executor.service import Service
from turnout.executor.term import Term
from turnout.metadata import callbacks
from turnout.metadata.callbacks import ClaimedCallback
from turnout.metadata.engine import Engine, transact
from turnout.metadata.errors import MetadataError
from turnout.metadata.states import CallbackState
from turnout.tasks.callbacks import Call

log = structlog.get_logger(__name__)

#: As much as is kept of what a callback says, in bytes.
LOG_BYTES = 64 << 10
#: A process that has had nothing to do for so long is ended: callbacks tend to come together.
_IDLE_S = 10.0


class CallbackLane(Service):
    """A thread that runs one callback at a time.

    Args:
        number: tells it from the others.
        settings: limits.
        engine: the metadata database.
        roster: lets callbacks ask for XComs.
        term: whose worker id the claims carry.
        assigner: writes the assignments.
        folder: where its process writes what callbacks say.
        subprocesses: starts its process.
        on_death: called when its process did not survive a callback.
    """

    def __init__(
        self,
        number: int,
        *,
        settings: Settings,
        engine: Engine,
        roster: Roster,
        term: Term,
        assigner: Assigner,
        folder: Path,
        subprocesses: Subprocesses,
        on_death: Callable[[], None],
    ) -> None:
        super().__init__(f"callbacks-{number}")
        self._timeout_s = settings.worker.callback_timeout_s
        self._max_infra_retries = settings.scheduler.max_infra_retries
        self._engine = engine
        self._roster = roster
        self._term = term
        self._assigner = assigner
        self._folder = folder
        self._process = CallbackProcess(subprocesses, on_death)
        self._masker = Masker(settings.passwords())
        self._news = threading.Event()
        self._hurry = threading.Event()
        self._outage = Outage("database")
        self.is_closed = True

    def look(self) -> None:
        """Look for callbacks that wait."""
        self._news.set()

    def hurry(self) -> None:
        """Kill the callback that runs, which leaves it to another worker, and start none."""
        self._hurry.set()

    def run(self) -> None:
        """Run callbacks until stopped; the one that has begun is brought to its end."""
        while not self._stopping.is_set():
            if not self._news.wait(_IDLE_S):
                self._process.end()
                self._news.wait()
            self._news.clear()
            try:
                while not (self._stopping.is_set() or self.is_closed) and self.run_once():
                    self._outage.over()
            except MetadataError as error:
                self._stopping.wait(self._outage.note(error))
                self._news.set()
        self._process.end()

    def run_once(self) -> bool:
        """Claim and run one callback; false when none waits.

        Raises:
            MetadataError: the database is away.
        """
        worker_id, limit = self._term.worker_id, self._max_infra_retries
        claimed = transact(self._engine, lambda c: callbacks.claim_next(c, worker_id, limit))
        if claimed is None:
            return False
        if claimed.state == CallbackState.FAILED:
            log.error("callback.given_up", callback_id=claimed.id, tries=claimed.tries)
            return True
        log.info("callback.started", callback_id=claimed.id, called_for=claimed.event, dag_id=claimed.subject.dag_id)
        problem, said = self._call(claimed, worker_id)
        if not self._may_go_on(worker_id):  # another worker has it, or will have it
            return True
        self._finish(claimed, worker_id, problem, said)
        return True

    def _may_go_on(self, worker_id: int) -> bool:
        return not self._hurry.is_set() and self._term.worker_id == worker_id

    def _call(self, claimed: ClaimedCallback, worker_id: int) -> tuple[str | None, str]:
        call = Call(claimed.event, claimed.subject_state, claimed.started_at, claimed.ended_at, claimed.error)
        file = self._folder / f"callback-{claimed.id}.jsonl"
        assignment = replace(self._assigner.assign(claimed.subject, file), log_max_bytes=LOG_BYTES)
        caller = HeldAttempt(claimed.subject, {}, None, assignment)
        self._roster.let_ask(caller)
        try:
            given = CallbackAssignment(assignment, call, self._timeout_s)
            problem = self._process.call(given, lambda: self._may_go_on(worker_id))
        finally:
            self._roster.let_ask_no_more(caller)
        return problem and self._masker.mask(problem), self._masker.mask(_take(file))

    def _finish(self, claimed: ClaimedCallback, worker_id: int, problem: str | None, said: str) -> None:
        while True:
            try:
                accepted = transact(
                    self._engine, lambda c: callbacks.finish(c, worker_id, claimed, problem=problem, log=said)
                )
            except MetadataError as error:
                if self._stopping.wait(self._outage.note(error)):
                    raise
            else:
                break
        level = log.info if problem is None else log.warning
        level("callback.ended", callback_id=claimed.id, problem=problem, accepted=accepted)

    def _wake(self) -> None:
        self._news.set()


def _take(file: Path) -> str:
    """Read a file and delete it; nothing is read of one that nobody could write."""
    try:
        text = file.read_text(errors="replace")
        file.unlink()
    except OSError:
        return ""
    return text
