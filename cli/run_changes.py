"""`turnout runs clear`, `mark` and `cancel`."""

from enum import StrEnum
from typing import Annotated

import typer

from turnout.cli.changing import DryRunOption, YesOption, change, describe_changes
from turnout.cli.database import actor
from turnout.cli.options import DagArgument, Output, OutputOption
from turnout.cli.selecting import EndOption, LatestOption, OnlyFailedOption, RunsArgument, StartOption
from turnout.metadata.changes.cancel import cancel_runs
from turnout.metadata.changes.clear import clear
from turnout.metadata.changes.mark import mark_runs
from turnout.metadata.changes.selection import RunSelection, TaskSelection
from turnout.metadata.states import RunState


class RunMark(StrEnum):
    """What a run can be marked."""

    SUCCESS = "success"
    FAILED = "failed"


def run_clear(
    dag_id: DagArgument,
    run_id: RunsArgument = None,
    *,
    start_date: StartOption = None,
    end_date: EndOption = None,
    only_failed: OnlyFailedOption = False,
    run_on_latest_version: LatestOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let all task instances of runs run again; what runs of them is stopped first."""
    runs = RunSelection(dag_id, run_id, from_date=start_date, to_date=end_date)
    asked = TaskSelection(runs, only_failed=only_failed)
    change(
        lambda connection, dry: clear(
            connection, asked, actor=actor(), run_on_latest_version=run_on_latest_version, dry_run=dry
        ),
        describe_changes,
        yes=yes,
        dry_run=dry_run,
        output=output,
    )


def run_mark(
    dag_id: DagArgument,
    run_id: RunsArgument = None,
    *,
    state: Annotated[RunMark, typer.Option("--state", help="What they become.")],
    start_date: StartOption = None,
    end_date: EndOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Mark runs success, with all their task instances, or failed, with those that have not ended."""
    asked = RunSelection(dag_id, run_id, from_date=start_date, to_date=end_date)
    change(
        lambda connection, dry: mark_runs(connection, asked, RunState(state), actor=actor(), dry_run=dry),
        describe_changes,
        yes=yes,
        dry_run=dry_run,
        output=output,
    )


def run_cancel(
    dag_id: DagArgument,
    run_id: RunsArgument = None,
    *,
    start_date: StartOption = None,
    end_date: EndOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """End runs that have not ended: they fail with what runs of them, and what has not begun is skipped."""
    asked = RunSelection(dag_id, run_id, from_date=start_date, to_date=end_date)
    change(
        lambda connection, dry: cancel_runs(connection, asked, actor=actor(), dry_run=dry),
        describe_changes,
        yes=yes,
        dry_run=dry_run,
        output=output,
    )
