"""How commands change what has happened: they say what would change, ask, do it, and say what has changed."""

import dataclasses
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

from turnout.cli.database import in_database
from turnout.cli.errors import UsageError
from turnout.cli.options import Output, OutputOption
from turnout.cli.output import remark, say, show_json
from turnout.metadata.changes.plan import Changes
from turnout.metadata.engine import Connection
from turnout.metadata.listings.spoken import counted

T = TypeVar("T")

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")]


@dataclass(frozen=True)
class Manner:
    """How a change is made: asked for first or not, made or only told, printed as lines or JSON."""

    yes: YesOption = False
    dry_run: DryRunOption = False
    output: OutputOption = Output.TABLE


def change(work: Callable[[Connection, bool], T], describe: Callable[[T], list[str]], manner: Manner) -> None:
    """Make a change, once the person has seen what it comes to and agreed.

    Args:
        work: makes the change, or only says what it would be when its second argument is true.
        describe: says it in lines; none when nothing changes.
        manner: how it is made.

    Raises:
        UsageError: there is nobody to ask.
        typer.Exit: the person has said no.
    """
    if not (manner.yes or manner.dry_run or sys.stdin.isatty()):
        raise UsageError("Nobody is here to ask: give --yes, or --dry-run to see what would change.")
    if not manner.yes or manner.dry_run:
        planned = in_database(lambda connection: work(connection, True))
        if manner.dry_run or not describe(planned):
            _show(planned, describe, manner.output)
            return
        _ask(describe(planned))
    _show(in_database(lambda connection: work(connection, False)), describe, manner.output)


def describe_changes(changes: Changes) -> list[str]:
    """Count what changes, by what it was and becomes."""
    runs = {(run.dag_id, run.dag_run_id) for run in changes.dag_runs}
    runs |= {(task.dag_id, task.dag_run_id) for task in changes.task_instances}
    if not runs:
        return []
    moves = Counter(("run", str(run.state), str(run.new_state)) for run in changes.dag_runs)
    moves.update((f"task {task.task_id}", str(task.state), str(task.new_state)) for task in changes.task_instances)
    lines = [f"{count:>6}  {what}: {before} -> {after}" for (what, before, after), count in moves.items()]
    dag_id, run_id = min(runs)
    return [f"DAG {dag_id}, {f'run {run_id}' if len(runs) == 1 else counted(len(runs), 'run')}:", *lines]


def _ask(lines: list[str]) -> None:
    for line in lines:
        remark(line)
    sys.stderr.write("Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        remark("Nothing was changed.")
        raise typer.Exit(1)


def _show(done: Any, describe: Callable[[Any], list[str]], output: Output) -> None:
    lines = describe(done)
    if output is Output.JSON:
        show_json(dataclasses.asdict(done))
    for line in lines if output is Output.TABLE else ():
        say(line)
    if not lines:
        remark("Nothing to change.")
