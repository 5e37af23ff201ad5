"""The control of the tests of this room, and a person beside it."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.control import Control
from turnout.metadata.attempts import ClaimedAttempt
from turnout.metadata.changes import cancel, clear, delete, mark
from turnout.metadata.changes.delete import Deleted
from turnout.metadata.changes.plan import Changes
from turnout.metadata.changes.selection import RunSelection, TaskSelection
from turnout.metadata.states import RunState, TaskState


class Person:
    """Changes things of the DAG `d` by hand."""

    def __init__(self, control: Control) -> None:
        self.control = control

    def clear(
        self, *tasks: str, run: str | None = "run", latest: bool = False, dry: bool = False, **more: Any
    ) -> Changes:
        asked = selection(run, tasks, more)
        return self.control.do(lambda c: clear.clear(c, asked, actor="ada", run_on_latest_version=latest, dry_run=dry))

    def mark(self, state: TaskState, *tasks: str, run: str | None = "run", dry: bool = False, **more: Any) -> Changes:
        asked = selection(run, tasks, more)
        return self.control.do(lambda c: mark.mark_tasks(c, asked, state, actor="ada", dry_run=dry))

    def cancel(self, *tasks: str, run: str | None = "run", dry: bool = False, **more: Any) -> Changes:
        asked = selection(run, tasks, more)
        return self.control.do(lambda c: cancel.cancel_tasks(c, asked, actor="ada", dry_run=dry))

    def mark_run(self, state: RunState, run: str | None = "run", *, dry: bool = False, **more: Any) -> Changes:
        asked = RunSelection("d", run, **more)
        return self.control.do(lambda c: mark.mark_runs(c, asked, state, actor="ada", dry_run=dry))

    def cancel_run(self, run: str | None = "run", *, dry: bool = False, **more: Any) -> Changes:
        asked = RunSelection("d", run, **more)
        return self.control.do(lambda c: cancel.cancel_runs(c, asked, actor="ada", dry_run=dry))

    def delete_run(self, run: str | None = "run", *, force: bool = False, dry: bool = False, **more: Any) -> Deleted:
        asked = RunSelection("d", run, **more)
        return self.control.do(lambda c: delete.delete_runs(c, asked, actor="ada", force=force, dry_run=dry))

    def delete_dag(self, *, force: bool = False, dry: bool = False) -> Deleted:
        return self.control.do(lambda c: delete.delete_dag(c, "d", actor="ada", force=force, dry_run=dry))


RUN_KEYS = ("past", "future", "from_date", "to_date")


def selection(run: str | None, tasks: tuple[str, ...], more: dict[str, Any]) -> TaskSelection:
    runs = RunSelection("d", run, **{key: more.pop(key) for key in RUN_KEYS if key in more})
    return TaskSelection(runs, tasks, **more)


def changed(changes: Changes) -> dict[str, str]:
    """What became of which task."""
    return {change.task_id: str(change.new_state) for change in changes.task_instances}


def hold(control: Control, run_id: str = "run") -> list[ClaimedAttempt]:
    """Let a worker claim what waits of a run."""
    worker = control.worker()
    return control.claim([message for message in control.queue().messages if message.run_id == run_id], worker)


@pytest.fixture
def control(engine: Engine) -> Control:
    return Control(engine)


@pytest.fixture
def person(control: Control) -> Person:
    return Person(control)


@pytest.fixture
def ran(control: Control) -> Callable[..., None]:
    """Let the runs that have begun go on to their end: each task succeeds, unless it is told otherwise."""
    workers: list[int] = []

    def run_on(**states: TaskState) -> None:
        workers[:] = workers or [control.worker()]
        control.start()
        while True:
            control.decide()
            messages = control.queue().messages
            if not messages:
                break
            control.work(messages, workers[0], **states)

    return run_on
