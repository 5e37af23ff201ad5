"""`turnout tasks logs`: what a task said, and what the control plane did with it, in one stream."""

import heapq
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli.database import open_database
from turnout.cli.options import (
    UNMAPPED,
    DagArgument,
    MapIndexOption,
    RunArgument,
    TaskArgument,
)
from turnout.cli.output import iso, remark, say
from turnout.config.settings import load_settings
from turnout.executor.logs import log_path, read_log
from turnout.metadata.engine import transact
from turnout.metadata.errors import NotFoundError
from turnout.metadata.listings.attempts import AttemptRow, show_with_attempts
from turnout.metadata.listings.events import events_of
from turnout.metadata.listings.spoken import in_state
from turnout.metadata.listings.task_instances import TaskInstanceRow

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_STAMP_WIDTH = len("2013-01-01T00:00:00.000Z")


class LogOutput(StrEnum):
    """How a log is printed."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True)
class Line:
    """A line of the merged log; its fields are those of the REST API."""

    timestamp: str | None
    event: str
    level: str
    logger: str


def task_logs(
    dag_id: DagArgument,
    run_id: RunArgument,
    task_id: TaskArgument,
    *,
    map_index: MapIndexOption = UNMAPPED,
    try_number: Annotated[
        int | None, typer.Option("--try", min=1, help="Number of the try; the last by default.")
    ] = None,
    output: Annotated[LogOutput, typer.Option("--output", "-o", help="How to print.")] = LogOutput.TEXT,
) -> None:
    """Print the log of a try: what the task said, and what schedulers and workers did with it."""
    settings = load_settings()
    with open_database(settings) as engine:
        instance, attempts = transact(
            engine, lambda connection: show_with_attempts(connection, dag_id, run_id, task_id, map_index)
        )
    chosen = _choose(instance, attempts, try_number)
    _print(_merge(chosen, _said(settings.logs_path, instance, chosen)), output)


def _choose(instance: TaskInstanceRow, attempts: list[AttemptRow], try_number: int | None) -> list[AttemptRow]:
    """Choose the attempts of a try: the one that started, and those before it that were returned unstarted."""
    if not attempts:
        raise NotFoundError(f"Task {instance.task_id} has no log: it {in_state(instance.state)} and was never queued.")
    tries = sorted({attempt.try_number for attempt in attempts})
    wanted = tries[-1] if try_number is None else try_number
    if wanted not in tries:
        raise NotFoundError(f"Task {instance.task_id} has no try {wanted}: it has {', '.join(map(str, tries))}.")
    return [attempt for attempt in attempts if attempt.try_number == wanted]


def _said(folder: Path, instance: TaskInstanceRow, attempts: Iterable[AttemptRow]) -> Iterator[tuple[datetime, Line]]:
    """Read what the task said, each line with the time at which it belongs."""
    moment = _EARLIEST
    for attempt in attempts:
        if attempt.start_date is None:
            continue
        path = log_path(
            folder,
            dag_id=instance.dag_id,
            run_id=instance.dag_run_id,
            task_id=instance.task_id,
            map_index=instance.map_index,
            try_number=attempt.try_number,
            attempt_id=attempt.attempt_id,
        )
        moment = attempt.start_date
        try:
            for entry in read_log(path):
                moment = max(moment, datetime.fromisoformat(entry.ts)) if entry.ts else moment
                yield moment, Line(iso(moment) if entry.ts else None, entry.msg, entry.level, entry.logger)
        except FileNotFoundError:
            where = f": it was written on {attempt.hostname}" if attempt.hostname else ""
            remark(f"The log {path} is not here{where}, if the task had begun.")


def _merge(attempts: list[AttemptRow], said: Iterable[tuple[datetime, Line]]) -> Iterator[Line]:
    events = (
        (event.timestamp, Line(iso(event.timestamp), event.event, event.level, "turnout"))
        for event in events_of(attempts)
    )
    return (line for _, line in heapq.merge(events, said, key=lambda timed: timed[0]))


def _print(lines: Iterable[Line], output: LogOutput) -> None:
    if output is LogOutput.JSON:
        # Line by line, since a log may be large.
        before = "["
        for line in lines:
            say(f"{before}{json.dumps(asdict(line), ensure_ascii=False)}".rstrip("\n"))
            before = ","
        say("]" if before == "," else "[]")
        return
    for line in lines:
        say(f"{_stamp(line.timestamp)} {line.level.upper():<7} {line.event}")


def _stamp(timestamp: str | None) -> str:
    if timestamp is None:
        return " " * _STAMP_WIDTH
    moment = datetime.fromisoformat(timestamp)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
