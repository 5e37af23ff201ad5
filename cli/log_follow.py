"""Following a task's log: new lines as they come, further attempts as they start, until the task has finished."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from turnout.cli.log_feed import Line, LogFeed
from turnout.cli.output import remark
from turnout.executor.log_reading import Logs
from turnout.metadata.engine import Engine, transact
from turnout.metadata.errors import DatabaseUnavailableError
from turnout.metadata.listings.attempts import AttemptRow, last_try, show_with_attempts
from turnout.metadata.listings.spoken import in_state
from turnout.metadata.listings.task_instances import TaskInstanceRow
from turnout.metadata.states import FINISHED, TaskState

#: Soon enough for a person, and two small queries a second for the database.
POLL_S = 0.5
_GOOD = (TaskState.SUCCESS, TaskState.SKIPPED)
#: How long the rest of a log may be on its way to the store; that of a worker that was killed never comes.
PATIENCE_S = 5.0

Names = tuple[str, str, str, int]
Look = tuple[TaskInstanceRow, list[AttemptRow]]


class Follower:
    """Follows the log of one task instance.

    Args:
        engine: the metadata database; while it is away, what the task says is still read.
        logs: where the logs are.
        names: the ids of the DAG, the run and the task, and the map index.
    """

    def __init__(self, engine: Engine, logs: Logs, names: Names) -> None:
        self._engine = engine
        self._logs = logs
        self._names = names
        self._is_away = False
        self._ended: dict[UUID, float] = {}  # seen at this time, by the monotonic clock
        self._whole: set[UUID] = set()
        self.exit_code = 1

    def lines(self) -> Iterator[Line]:
        """Yield lines until the task instance has finished, and set the exit code by its state.

        Raises:
            NotFoundError: there is no such task instance, or none any more.
        """
        look = instance, attempts = self._look()
        if not attempts and instance.state not in FINISHED:
            remark(f"Task {instance.task_id} {in_state(instance.state)}: waiting for its first attempt.")
        feed = LogFeed(self._logs, instance)
        before = len(attempts) - len(last_try(attempts))
        while True:
            instance, attempts = look
            shown, are_whole = self._ended_when_whole(feed, attempts[before:])
            yield from feed.read(shown)
            if instance.state in FINISHED and are_whole:
                break
            time.sleep(POLL_S)
            look = self._look_again(look)
        feed.tell_missing(attempts[before:])
        self._tell_end(instance)

    def _look(self) -> Look:
        return transact(self._engine, lambda connection: show_with_attempts(connection, *self._names))

    def _look_again(self, last: Look) -> Look:
        try:
            look = self._look()
        except DatabaseUnavailableError as error:
            if not self._is_away:
                remark(f"{error} Waiting for it.")
            self._is_away = True
            return last
        self._is_away = False
        return look

    def _ended_when_whole(self, feed: LogFeed, attempts: Sequence[AttemptRow]) -> tuple[list[AttemptRow], bool]:
        """Show an attempt as not ended for as long as the rest of its log is on its way to the store."""
        shown = [replace(one, end_date=None) if self._awaits_rest(feed, one) else one for one in attempts]
        return shown, shown == list(attempts)

    def _awaits_rest(self, feed: LogFeed, attempt: AttemptRow) -> bool:
        if attempt.end_date is None or attempt.attempt_id in self._whole:
            return False
        since = self._ended.setdefault(attempt.attempt_id, time.monotonic())
        if time.monotonic() - since < PATIENCE_S and not feed.is_whole(attempt):
            return True
        self._whole.add(attempt.attempt_id)
        return False

    def _tell_end(self, instance: TaskInstanceRow) -> None:
        self.exit_code = 0 if instance.state in _GOOD else 1
        if self.exit_code or instance.queued_when is None:
            which = f"Task {instance.task_id} of run {instance.dag_run_id} of DAG {instance.dag_id}"
            remark(f"{which} {in_state(instance.state)}.")
