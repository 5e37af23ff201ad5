"""Options that say which runs and which task instances a command is about."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from turnout.cli.options import DagArgument, moment
from turnout.metadata.changes.selection import RunSelection, TaskSelection

RunsArgument = Annotated[
    str | None, typer.Argument(metavar="RUN_ID", help="Id of the run; or give --start-date or --end-date.")
]
StartOption = Annotated[
    datetime | None,
    typer.Option("--start-date", "-s", metavar="TIME", parser=moment, help="Runs from this logical date on."),
]
EndOption = Annotated[
    datetime | None,
    typer.Option("--end-date", "-e", metavar="TIME", parser=moment, help="Runs up to this logical date."),
]
PastOption = Annotated[bool, typer.Option("--past", help="Also the runs before.")]
FutureOption = Annotated[bool, typer.Option("--future", help="Also the runs after.")]
TasksOption = Annotated[list[str] | None, typer.Option("--task", "-t", metavar="TASK_ID", help="A task; repeatable.")]
UpstreamOption = Annotated[bool, typer.Option("--upstream", "-u", help="Also all that the tasks wait for.")]
DownstreamOption = Annotated[bool, typer.Option("--downstream", "-d", help="Also all that waits for the tasks.")]
MapIndexesOption = Annotated[
    int | None, typer.Option("--map-index", help="Only this instance of a mapped task; all by default.")
]
OnlyFailedOption = Annotated[bool, typer.Option("--only-failed", "-f", help="Only what failed, or did not run for it.")]
OnlyRunningOption = Annotated[bool, typer.Option("--only-running", "-r", help="Only what runs.")]
LatestOption = Annotated[
    bool,
    typer.Option("--run-on-latest-version", help="Runs that start again get the latest version of the DAG."),
]


@dataclass(frozen=True)
class ChosenRuns:
    """Runs of a DAG, as a command line names them."""

    dag_id: DagArgument
    run_id: RunsArgument = None
    start_date: StartOption = None
    end_date: EndOption = None

    def selection(self) -> RunSelection:
        """Say which runs these are."""
        return RunSelection(self.dag_id, self.run_id, from_date=self.start_date, to_date=self.end_date)


@dataclass(frozen=True)
class ChosenTasks:
    """Task instances of such runs."""

    dag_id: DagArgument
    run_id: RunsArgument = None
    task: TasksOption = None
    map_index: MapIndexesOption = None
    upstream: UpstreamOption = False
    downstream: DownstreamOption = False
    past: PastOption = False
    future: FutureOption = False
    start_date: StartOption = None
    end_date: EndOption = None

    def selection(self, *, only_failed: bool = False, only_running: bool = False) -> TaskSelection:
        """Say which task instances these are."""
        runs = RunSelection(self.dag_id, self.run_id, self.past, self.future, self.start_date, self.end_date)
        tasks = tuple(self.task or ())
        return TaskSelection(runs, tasks, self.map_index, self.upstream, self.downstream, only_failed, only_running)
