"""`turnout tasks logs`: what a task said, and what the control plane did with it, in one stream."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

from turnout.cli.database import open_database
from turnout.cli.errors import UsageError
from turnout.cli.log_feed import Line, LogFeed
from turnout.cli.log_follow import Follower
from turnout.cli.options import (
    UNMAPPED,
    DagArgument,
    MapIndexOption,
    RunArgument,
    TaskArgument,
)
from turnout.cli.output import say
from turnout.config.settings import load_settings
from turnout.executor.log_reading import Logs
from turnout.metadata.engine import transact
from turnout.metadata.errors import NotFoundError
from turnout.metadata.listings.attempts import AttemptRow, last_try, show_with_attempts
from turnout.metadata.listings.spoken import in_state
from turnout.metadata.listings.task_instances import TaskInstanceRow

#: What a shell says of a command that Ctrl-C has ended.
INTERRUPTED = 130
_STAMP_WIDTH = len("2013-01-01T00:00:00.000Z")


class LogOutput(StrEnum):
    """How a log is printed."""

    TEXT = "text"
    JSON = "json"


def task_logs(
    dag_id: DagArgument,
    run_id: RunArgument,
    task_id: TaskArgument,
    *,
    map_index: MapIndexOption = UNMAPPED,
    try_number: Annotated[
        int | None,
        typer.Option("--try", min=1, help="Number of the try; the last by default, with those lost just before it."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the task has finished; exit with 1 if it failed.")
    ] = False,
    output: Annotated[LogOutput, typer.Option("--output", "-o", help="How to print.")] = LogOutput.TEXT,
) -> None:
    """Print the log of a try: what the task said, and what schedulers and workers did with it."""
    if follow and try_number is not None:
        raise UsageError("--follow shows each try as it comes: leave --try out.")
    settings = load_settings()
    with open_database(settings) as engine:
        if follow:
            follower = Follower(engine, Logs(settings), (dag_id, run_id, task_id, map_index))
            raise typer.Exit(_print_until_interrupted(follower, output))
        instance, attempts = transact(
            engine, lambda connection: show_with_attempts(connection, dag_id, run_id, task_id, map_index)
        )
    chosen = _choose(instance, attempts, try_number)
    feed = LogFeed(Logs(settings), instance)
    _print(feed.read(chosen, to_the_end=True), output)
    feed.tell_missing(chosen)


def _choose(instance: TaskInstanceRow, attempts: list[AttemptRow], try_number: int | None) -> list[AttemptRow]:
    """Choose the attempts of a try: the one that started, and those before it that were returned unstarted."""
    if not attempts:
        raise NotFoundError(f"Task {instance.task_id} has no log: it {in_state(instance.state)} and was never queued.")
    if try_number is None:
        return last_try(attempts)
    tries = sorted({attempt.try_number for attempt in attempts})
    if try_number not in tries:
        raise NotFoundError(f"Task {instance.task_id} has no try {try_number}: it has {', '.join(map(str, tries))}.")
    return [attempt for attempt in attempts if attempt.try_number == try_number]


def _print_until_interrupted(follower: Follower, output: LogOutput) -> int:
    try:
        _print(follower.lines(), output)
    except KeyboardInterrupt:
        return INTERRUPTED
    return follower.exit_code


def _print(lines: Iterable[Line], output: LogOutput) -> None:
    if output is LogOutput.JSON:
        _print_json(lines)
        return
    for line in lines:
        say(f"{_stamp(line.timestamp)} {line.level.upper():<7} {line.event}")


def _print_json(lines: Iterable[Line]) -> None:
    """Print an array, line by line, since a log may be large and may still grow."""
    before = "["
    try:
        for line in lines:
            say(f"{before}{json.dumps(asdict(line), ensure_ascii=False)}")
            before = ","
    except KeyboardInterrupt:
        say("]" if before == "," else "[]")
        raise
    say("]" if before == "," else "[]")


def _stamp(timestamp: str | None) -> str:
    if timestamp is None:
        return " " * _STAMP_WIDTH
    moment = datetime.fromisoformat(timestamp)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
