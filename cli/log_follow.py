"""Following a task's log: new lines as they come, further attempts as they start, until the task has finished."""

import time
from collections.abc import Iterator
from pathlib import Path

from turnout.cli.log_feed import Line, LogFeed
from turnout.cli.output import remark
from turnout.metadata.engine import Engine, transact
from turnout.metadata.errors import DatabaseUnavailableError
from turnout.metadata.listings.attempts import AttemptRow, last_try, show_with_attempts
from turnout.metadata.listings.spoken import in_state
from turnout.metadata.listings.task_instances import TaskInstanceRow
from turnout.metadata.states import FINISHED, TaskState

#: Soon enough for a person, and two small queries a second for the database.
POLL_S = 0.5
_GOOD = (TaskState.SUCCESS, TaskState.SKIPPED)

Names = tuple[str, str, str, int]
Look = tuple[TaskInstanceRow, list[AttemptRow]]


class Follower:
    """Follows the log of one task instance.

    Args:
        engine: the metadata database; while it is away, what the task says is still read.
        folder: where the logs are.
        names: the ids of the DAG, the run and the task, and the map index.
    """

    def __init__(self, engine: Engine, folder: Path, names: Names) -> None:
        self._engine = engine
        self._folder = folder
        self._names = names
        self._is_away = False
        self.exit_code = 1

    def lines(self) -> Iterator[Line]:
        """Yield lines until the task instance has finished, and set the exit code by its state.

        Raises:
            NotFoundError: there is no such task instance, or none any more.
        """
        look = instance, attempts = self._look()
        if not attempts and instance.state not in FINISHED:
            remark(f"Task {instance.task_id} {in_state(instance.state)}: waiting for its first attempt.")
        feed = LogFeed(self._folder, instance)
        before = len(attempts) - len(last_try(attempts))
        while True:
            instance, attempts = look
            yield from feed.read(attempts[before:])
            if instance.state in FINISHED:
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

    def _tell_end(self, instance: TaskInstanceRow) -> None:
        self.exit_code = 0 if instance.state in _GOOD else 1
        if self.exit_code or instance.queued_when is None:
            which = f"Task {instance.task_id} of run {instance.dag_run_id} of DAG {instance.dag_id}"
            remark(f"{which} {in_state(instance.state)}.")
