"""Which runs a DAG's timetable gives from now on: the one place where that is decided, and pure.

Schedulers create what `upcoming_runs` says, previews list it, and the DAG processor records the first of it.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from turnout.metadata.versions import Content
from turnout.tasks.schedule import CatchUp
from turnout.tasks.timetables import BuiltInTimetable, DagRunInfo, DataInterval, timetable_from_json

#: All of a DAG's content that its runs depend on. When any of it changes, its timetable counts from that moment.
TIMING_KEYS = ("schedule", "start_date", "end_date", "catchup", "jitter_s")


@dataclass(frozen=True)
class Timing:
    """All that the runs to come of a DAG depend on.

    Attributes:
        dag_id: the DAG.
        schedule: its timetable, as its content holds it.
        start: its start date.
        end: its end date.
        catchup: what becomes of runs that were missed.
        jitter: up to how much later its runs start.
        last: the data interval of its last scheduled run, if there was one.
        since: with the policy `none`, what came due until then was missed.
        taken: the logical dates that are taken already, from that of the last scheduled run on.
        planned: the runs of a timetable of an author's own that were planned ahead.
    """

    dag_id: str
    schedule: Mapping[str, Any]
    start: datetime | None
    end: datetime | None
    catchup: CatchUp
    jitter: timedelta
    last: DataInterval | None
    since: datetime
    taken: frozenset[datetime] = frozenset()
    planned: Sequence[DagRunInfo] = ()

    @cached_property
    def timetable(self) -> BuiltInTimetable:
        """The timetable, ready to be asked.

        Raises:
            ValueError: the type of timetable is unknown here.
        """
        return timetable_from_json(self.schedule, self.planned)


def timing_of(content: Content) -> dict[str, Any]:
    """Return the part of a DAG's content that its runs depend on."""
    return {key: content[key] for key in TIMING_KEYS}


def upcoming_runs(timing: Timing, now: datetime) -> Iterator[DagRunInfo]:
    """Yield the scheduled runs of a DAG from now on, in order: first those that are due, then those to come."""
    shift = jitter_shift(timing.dag_id, timing.jitter)
    for run in _runs(timing, now - shift, timing.since - shift):
        if run.logical_date not in timing.taken:
            yield run._replace(run_after=run.run_after + shift)


def jitter_shift(dag_id: str, jitter: timedelta) -> timedelta:
    """Return how much later the runs of a DAG start: always the same, from nothing up to `jitter` exclusively."""
    spread = int.from_bytes(hashlib.sha256(dag_id.encode()).digest()[:8])
    return timedelta(microseconds=jitter // timedelta.resolution * spread // 2**64)


def _runs(timing: Timing, now: datetime, since: datetime) -> Iterator[DagRunInfo]:
    run = _first(timing, now, since)
    while run is not None and (timing.end is None or timing.timetable.allows(run, timing.end)):
        yield run
        run = timing.timetable.next_run(run.data_interval, timing.start, now)


def _first(timing: Timing, now: datetime, since: datetime) -> DagRunInfo | None:
    """Return the run to begin with, by the policy for those that were missed."""
    timetable = timing.timetable
    skips = timing.catchup in (CatchUp.LATEST, CatchUp.NONE)
    run = timetable.run_from(timing.last, timing.start, now, catchup=not skips)
    if run is None or run.run_after > now or not timetable.can_miss:
        return run
    if timing.catchup is CatchUp.NONE and run.run_after <= since:
        return timetable.next_run(run.data_interval, timing.start, now)
    return _coalesce(timing, run, now) if timing.catchup is CatchUp.COALESCE else run


def _coalesce(timing: Timing, first: DagRunInfo, now: datetime) -> DagRunInfo | None:
    """Return one run for the data intervals of all runs that are due from `first` on."""
    run: DagRunInfo | None = first
    while run is not None and run.logical_date in timing.taken:
        run = timing.timetable.next_run(run.data_interval, timing.start, now)
    latest = _latest_due(timing, now)
    if run is None or latest is None or latest <= run:
        return run
    return DagRunInfo(latest.run_after, DataInterval(run.data_interval.start, latest.data_interval.end))


def _latest_due(timing: Timing, now: datetime) -> DagRunInfo | None:
    """Return the latest run that is due, of those that are not beyond the end date."""
    timetable, end = timing.timetable, timing.end
    if end is None:
        return timetable.latest_run(timing.last, timing.start, now)
    latest = timetable.latest_run(timing.last, timing.start, min(now, end))
    while latest is not None:
        following = timetable.next_run(latest.data_interval, timing.start, now)
        if following is None or following.run_after > now or not timetable.allows(following, end):
            break
        latest = following
    return latest
