"""`turnout schedulers`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from turnout.cli.commands import command_group
from turnout.cli.database import in_database
from turnout.cli.options import LIMIT, AllProcessesOption, LimitOption, Output, OutputOption
from turnout.cli.output import show_page
from turnout.metadata.listings.history import read_clock
from turnout.metadata.listings.page import Page
from turnout.metadata.listings.processes import SchedulerRow, list_schedulers
from turnout.metadata.listings.spoken import duration

app = command_group()

_COLUMNS = ("name", "state", "hostname", "pid", "version", "lease", "last_loop", "last_work", "trouble")
#: The counts in the order of the loop's steps; others follow.
_STEPS = ("created", "started", "decided", "moved", "finished", "queued", "repaired")
_EMPTY = "No scheduler is alive. `turnout scheduler` starts one; --all shows those that ended within the last day."


@dataclass(frozen=True)
class _Line:
    """A scheduler in the table."""

    name: str
    state: str
    hostname: str
    pid: int
    version: str
    lease: str
    last_loop: str | None
    last_work: str | None
    trouble: str | None


@app.command("list")
def list_(
    *, is_all: AllProcessesOption = False, limit: LimitOption = LIMIT, output: OutputOption = Output.TABLE
) -> None:
    """List the schedulers that are alive: their last loops, and what they cannot do."""
    page, now = in_database(
        lambda connection: (list_schedulers(connection, limit, is_all=is_all), read_clock(connection))
    )
    lines = page if output is Output.JSON else Page([_line(row, now) for row in page.rows], page.is_cut)
    show_page(lines, _COLUMNS, output, empty=_EMPTY)


def _line(row: SchedulerRow, now: datetime) -> _Line:
    return _Line(
        name=row.name,
        state=row.state,
        hostname=row.hostname,
        pid=row.pid,
        version=row.version,
        lease=_lease(row, now),
        last_loop=_ago(row.last_loop_when, now),
        last_work=_work(row.last_loop, now),
        trouble="; ".join(trouble["error"] for trouble in row.troubles) or None,
    )


def _lease(row: SchedulerRow, now: datetime) -> str:
    if row.end_date is not None:
        return f"ended {_ago(row.end_date, now)}"
    if row.lease_expires_when <= now:
        return f"expired {_ago(row.lease_expires_when, now)}"
    return f"{duration((row.lease_expires_when - now).total_seconds())} left"


def _work(did: dict[str, Any] | None, now: datetime) -> str | None:
    """Say what a loop did, without the counts that are 0."""
    if did is None:
        return None
    names = [*filter(did.__contains__, _STEPS), *sorted(did.keys() - set(_STEPS))]
    counts = [f"{name} {did[name]}" for name in names if type(did[name]) is int and did[name]]
    when = _ago(datetime.fromisoformat(did["at"]), now)
    return f"{when}: {', '.join(counts)}" if counts else None


def _ago(moment: datetime | None, now: datetime) -> str | None:
    return None if moment is None else f"{duration((now - moment).total_seconds())} ago"
