"""Arguments and options that many commands have."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer


class Output(StrEnum):
    """How a reading command prints."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="Most rows to list.")]
DagArgument = Annotated[str, typer.Argument(metavar="DAG_ID", help="Id of the DAG.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN_ID", help="Id of the run, see `turnout runs list`.")]
TaskArgument = Annotated[str, typer.Argument(metavar="TASK_ID", help="Id of the task.")]
MapIndexOption = Annotated[int, typer.Option("--map-index", help="Index of a mapped task's instance.")]
AllProcessesOption = Annotated[bool, typer.Option("--all", help="Also those that stopped or died within the last day.")]

LIMIT = 100
UNMAPPED = -1


def moment(value: str) -> datetime:
    """Read an ISO 8601 date or time from the command line; without an offset it is UTC.

    Raises:
        typer.BadParameter: it is none.
    """
    try:
        read = datetime.fromisoformat(value)
    except ValueError:
        raise typer.BadParameter(f"{value!r} is no ISO 8601 date or time, such as 2013-01-31T06:00:00Z.") from None
    try:
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except OverflowError:
        raise typer.BadParameter(f"{value!r} is in UTC beyond the years 1 to 9999 of the calendar.") from None


LogicalDateOption = Annotated[
    datetime | None,
    typer.Option("--logical-date", metavar="TIME", parser=moment, help="ISO 8601; UTC unless it has an offset."),
]
