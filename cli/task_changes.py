"""`turnout tasks clear`, `mark` and `cancel`."""

from enum import StrEnum
from typing import Annotated

import typer

from turnout.cli.changing import DryRunOption, YesOption, change, describe_changes
from turnout.cli.database import actor
from turnout.cli.options import DagArgument, Output, OutputOption
from turnout.cli.selecting import (
    DownstreamOption,
    EndOption,
    FutureOption,
    LatestOption,
    MapIndexesOption,
    OnlyFailedOption,
    OnlyRunningOption,
    PastOption,
    RunsArgument,
    StartOption,
    TasksOption,
    UpstreamOption,
)
from turnout.metadata.changes.cancel import cancel_tasks
from turnout.metadata.changes.clear import clear
from turnout.metadata.changes.mark import mark_tasks
from turnout.metadata.changes.selection import RunSelection, TaskSelection
from turnout.metadata.states import TaskState


class TaskMark(StrEnum):
    """What a task instance can be marked."""

    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"


def task_clear(
    dag_id: DagArgument,
    run_id: RunsArgument = None,
    *,
    task: TasksOption = None,
    map_index: MapIndexesOption = None,
    upstream: UpstreamOption = False,
    downstream: DownstreamOption = False,
    past: PastOption = False,
    future: FutureOption = False,
    start_date: StartOption = None,
    end_date: EndOption = None,
    only_failed: OnlyFailedOption = False,
    only_running: OnlyRunningOption = False,
    run_on_latest_version: LatestOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let task instances run again, all of the run unless tasks are named; what runs of them is stopped first."""
    runs = RunSelection(dag_id, run_id, past, future, start_date, end_date)
    asked = TaskSelection(runs, tuple(task or ()), map_index, upstream, downstream, only_failed, only_running)
    change(
        lambda connection, dry: clear(
            connection, asked, actor=actor(), run_on_latest_version=run_on_latest_version, dry_run=dry
        ),
        describe_changes,
        yes=yes,
        dry_run=dry_run,
        output=output,
    )


def task_mark(
    dag_id: DagArgument,
    run_id: RunsArgument = None,
    *,
    state: Annotated[TaskMark, typer.Option("--state", help="What they become.")],
    task: TasksOption = None,
    map_index: MapIndexesOption = None,
    upstream: UpstreamOption = False,
    downstream: DownstreamOption = False,
    past: PastOption = False,
    future: FutureOption = False,
    start_date: StartOption = None,
    end_date: EndOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Mark task instances success, failed or skipped; their runs go on from there, and what runs of them is stopped."""
    runs = RunSelection(dag_id, run_id, past, future, start_date, end_date)
    asked = TaskSelection(runs, tuple(task or ()), map_index, upstream, downstream)
    change(
        lambda connection, dry: mark_tasks(connection, asked, TaskState(state), actor=actor(), dry_run=dry),
        describe_changes,
        yes=yes,
        dry_run=dry_run,
        output=output,
    )


def task_cancel(
    dag_id: DagArgument,
    run_id: RunsArgument = None,
    *,
    task: TasksOption = None,
    map_index: MapIndexesOption = None,
    upstream: UpstreamOption = False,
    downstream: DownstreamOption = False,
    past: PastOption = False,
    future: FutureOption = False,
    start_date: StartOption = None,
    end_date: EndOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """End task instances that have not ended: they fail, without a retry, and their runs go on from there."""
    runs = RunSelection(dag_id, run_id, past, future, start_date, end_date)
    asked = TaskSelection(runs, tuple(task or ()), map_index, upstream, downstream)
    change(
        lambda connection, dry: cancel_tasks(connection, asked, actor=actor(), dry_run=dry),
        describe_changes,
        yes=yes,
        dry_run=dry_run,
        output=output,
    )
