"""`turnout runs clear`, `mark` and `cancel`."""

from enum import StrEnum
from typing import Annotated

import typer

from turnout.cli.changing import Manner, change, describe_changes
from turnout.cli.database import actor
from turnout.cli.selecting import ChosenRuns, LatestOption, OnlyFailedOption
from turnout.cli.spreading import spread
from turnout.metadata.changes.cancel import cancel_runs
from turnout.metadata.changes.clear import clear
from turnout.metadata.changes.mark import mark_runs
from turnout.metadata.changes.selection import TaskSelection
from turnout.metadata.states import RunState


class RunMark(StrEnum):
    """What a run can be marked."""

    SUCCESS = "success"
    FAILED = "failed"


@spread
def run_clear(
    runs: ChosenRuns,
    *,
    only_failed: OnlyFailedOption = False,
    run_on_latest_version: LatestOption = False,
    manner: Manner,
) -> None:
    """Let all task instances of runs run again; what runs of them is stopped first."""
    asked = TaskSelection(runs.selection(), only_failed=only_failed)
    change(
        lambda connection, dry: clear(
            connection, asked, actor=actor(), run_on_latest_version=run_on_latest_version, dry_run=dry
        ),
        describe_changes,
        manner,
    )


@spread
def run_mark(
    runs: ChosenRuns, *, state: Annotated[RunMark, typer.Option("--state", help="What they become.")], manner: Manner
) -> None:
    """Mark runs success, with all their task instances, or failed, with those that have not ended."""
    asked = runs.selection()
    change(
        lambda connection, dry: mark_runs(connection, asked, RunState(state), actor=actor(), dry_run=dry),
        describe_changes,
        manner,
    )


@spread
def run_cancel(runs: ChosenRuns, manner: Manner) -> None:
    """End runs that have not ended: they fail with what runs of them, and what has not begun is skipped."""
    asked = runs.selection()
    change(lambda connection, dry: cancel_runs(connection, asked, actor=actor(), dry_run=dry), describe_changes, manner)
