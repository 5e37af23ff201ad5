"""`turnout tasks clear`, `mark` and `cancel`."""

from enum import StrEnum
from typing import Annotated

import typer

from turnout.cli.changing import Manner, change, describe_changes
from turnout.cli.database import actor
from turnout.cli.selecting import ChosenTasks, LatestOption, OnlyFailedOption, OnlyRunningOption
from turnout.cli.spreading import spread
from turnout.metadata.changes.cancel import cancel_tasks
from turnout.metadata.changes.clear import clear
from turnout.metadata.changes.mark import mark_tasks
from turnout.metadata.states import TaskState


class TaskMark(StrEnum):
    """What a task instance can be marked."""

    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"


@spread
def task_clear(
    tasks: ChosenTasks,
    *,
    only_failed: OnlyFailedOption = False,
    only_running: OnlyRunningOption = False,
    run_on_latest_version: LatestOption = False,
    manner: Manner,
) -> None:
    """Let task instances run again, all of the run unless tasks are named; what runs of them is stopped first."""
    asked = tasks.selection(only_failed=only_failed, only_running=only_running)
    change(
        lambda connection, dry: clear(
            connection, asked, actor=actor(), run_on_latest_version=run_on_latest_version, dry_run=dry
        ),
        describe_changes,
        manner,
    )


@spread
def task_mark(
    tasks: ChosenTasks, *, state: Annotated[TaskMark, typer.Option("--state", help="What they become.")], manner: Manner
) -> None:
    """Mark task instances success, failed or skipped; their runs go on from there, and what runs of them is stopped."""
    asked = tasks.selection()
    change(
        lambda connection, dry: mark_tasks(connection, asked, TaskState(state), actor=actor(), dry_run=dry),
        describe_changes,
        manner,
    )


@spread
def task_cancel(tasks: ChosenTasks, manner: Manner) -> None:
    """End task instances that have not ended: they fail, without a retry, and their runs go on from there."""
    asked = tasks.selection()
    change(
        lambda connection, dry: cancel_tasks(connection, asked, actor=actor(), dry_run=dry), describe_changes, manner
    )
