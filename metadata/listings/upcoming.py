"""The runs that a DAG's timetable will create, as the schedulers see them: nothing is planned a second time here."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import islice, takewhile

from sqlalchemy import Connection, text

from turnout.metadata.listings.dags import require_dag
from turnout.metadata.listings.page import Page, first
from turnout.metadata.planning import Timing, upcoming_runs
from turnout.metadata.runs import OPEN_RUNS
from turnout.metadata.timings import read_timings
from turnout.tasks.timetables import DagRunInfo


class Creation(StrEnum):
    """When a run is created, once its DAG is unpaused.

    Attributes:
        AT_ONCE: by the next pass of a scheduler.
        WHEN_ROOM: it is due, and waits until earlier runs have ended (`max_active_runs`).
        WHEN_DUE: when its time has come.
    """

    AT_ONCE = "at_once"
    WHEN_ROOM = "when_room"
    WHEN_DUE = "when_due"


@dataclass(frozen=True)
class UpcomingRun:
    """A run that is to come."""

    dag_id: str
    logical_date: datetime
    data_interval_start: datetime
    data_interval_end: datetime
    run_after: datetime
    creation: Creation


_STATE = text(f"SELECT d.is_paused, d.max_active_runs - {OPEN_RUNS} AS room FROM dag d WHERE d.dag_id = :dag_id")  # noqa: S608


def list_upcoming(connection: Connection, dag_id: str, count: int) -> list[UpcomingRun]:
    """Preview the next runs of a DAG as if it were not paused; none when its timetable has no more.

    Raises:
        NotFoundError: there is no such DAG.
    """
    return list(islice(_upcoming(connection, dag_id), count))


def preview_unpausing(connection: Connection, dag_id: str, limit: int) -> Page[UpcomingRun]:
    """List the runs that unpausing a DAG would create: all that are due, whether at once or when there is room.

    Raises:
        NotFoundError: there is no such DAG.
    """
    due = takewhile(lambda run: run.creation is not Creation.WHEN_DUE, _upcoming(connection, dag_id))
    return first(islice(due, limit + 1), limit)


def _upcoming(connection: Connection, dag_id: str) -> Iterator[UpcomingRun]:
    require_dag(connection, dag_id)
    state = connection.execute(_STATE, {"dag_id": dag_id}).one()
    [(timing, now)] = read_timings(connection, [dag_id])
    if state.is_paused:  # its timetable would begin with its being unpaused
        timing = replace(timing, since=now)
    runs = islice(upcoming_runs(timing, now), 1 if timing.timetable.follows_runs else None)
    return _shown(timing, runs, state.room, now)


def _shown(timing: Timing, runs: Iterable[DagRunInfo], room: int, now: datetime) -> Iterator[UpcomingRun]:
    for number, run in enumerate(runs):
        due = Creation.AT_ONCE if number < room else Creation.WHEN_ROOM
        creation = due if run.run_after <= now else Creation.WHEN_DUE
        yield UpcomingRun(timing.dag_id, run.logical_date, *run.data_interval, run.run_after, creation)
