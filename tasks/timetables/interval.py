"""Timetables of data intervals that follow one another: a run is for an interval and starts once it has closed."""

from abc import abstractmethod
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from turnout.tasks.cron import CronClock
from turnout.tasks.timetables.checks import check_length
from turnout.tasks.timetables.timetable import BuiltInTimetable, DagRunInfo, DataInterval

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _IntervalTimetable(BuiltInTimetable):
    """Data intervals that follow one another without a gap."""

    def next_run(self, last: DataInterval | None, start: datetime | None, now: datetime) -> DagRunInfo | None:
        """Return the run of the interval after the last, or else of the first from the start date on."""
        starts = [] if start is None else [self._first_start(start)]
        if last is not None:
            starts.append(self._start_after(last))
        return self._run(max(starts)) if starts else self.latest_run(last, start, now)

    def latest_run(self, last: DataInterval | None, start: datetime | None, now: datetime) -> DagRunInfo | None:
        """Return the run of the latest interval that has closed by now."""
        return self._run(self._latest_closed_start(last, start, now))

    def allows(self, run: DagRunInfo, end: datetime) -> bool:
        """Tell whether the interval of a run starts no later than the DAG's end date."""
        return run.data_interval.start <= end

    def _run(self, start: datetime) -> DagRunInfo:
        return DagRunInfo.interval(start, self._end_of(start))

    @abstractmethod
    def _first_start(self, start: datetime) -> datetime:
        """Return where the first interval begins that does not begin before a start date."""

    @abstractmethod
    def _start_after(self, last: DataInterval) -> datetime:
        """Return where the interval after the last begins, also when the schedule has changed in between."""

    @abstractmethod
    def _latest_closed_start(self, last: DataInterval | None, start: datetime | None, now: datetime) -> datetime:
        """Return where the latest interval begins that has closed by now."""

    @abstractmethod
    def _end_of(self, start: datetime) -> datetime:
        """Return where the interval ends that begins at `start`."""


class CronDataIntervalTimetable(_IntervalTimetable):
    """Data intervals between two times that a cron expression fires.

    Args:
        cron: five fields, six with seconds at the end, or a preset such as `@daily`.
        timezone: the zone whose wall clock the expression is about, as a name or a `tzinfo`.
    """

    def __init__(self, cron: str, timezone: str | tzinfo = "UTC") -> None:
        self._clock = CronClock(cron, timezone)

    def manual_interval(self, run_after: datetime) -> DataInterval:
        """Return the latest interval that has closed by `run_after`."""
        end = self._clock.last_until(run_after)
        return DataInterval(self._clock.last_before(end), end)

    def to_json(self) -> dict[str, Any]:
        """Return what `timetable_from_json` reads."""
        return {"type": "cron", "expression": self._clock.expression, "timezone": self._clock.timezone}

    @property
    def summary(self) -> str:
        """How a person would write it."""
        return self._clock.expression

    def _first_start(self, start: datetime) -> datetime:
        return self._clock.first_from(start)

    def _start_after(self, last: DataInterval) -> datetime:
        return self._clock.last_until(last.end)

    def _latest_closed_start(
        self,
        last: DataInterval | None,  # noqa: ARG002 - the boundaries do not depend on it
        start: datetime | None,  # noqa: ARG002 - the same
        now: datetime,
    ) -> datetime:
        return self.manual_interval(now).start

    def _end_of(self, start: datetime) -> datetime:
        return self._clock.first_after(start)


class DeltaDataIntervalTimetable(_IntervalTimetable):
    """Data intervals of one length of real time, counted from the start date.

    Args:
        delta: the length.
    """

    def __init__(self, delta: timedelta) -> None:
        self._delta = check_length(delta, "schedule")

    def manual_interval(self, run_after: datetime) -> DataInterval:
        """Return the interval that closes at `run_after`."""
        return DataInterval(run_after - self._delta, run_after)

    def to_json(self) -> dict[str, Any]:
        """Return what `timetable_from_json` reads."""
        return {"type": "delta", "seconds": self._delta.total_seconds()}

    @property
    def summary(self) -> str:
        """How a person would write it."""
        return str(self._delta)

    def _first_start(self, start: datetime) -> datetime:
        return start

    def _start_after(self, last: DataInterval) -> datetime:
        return last.end

    def _latest_closed_start(self, last: DataInterval | None, start: datetime | None, now: datetime) -> datetime:
        origin = last.end if last is not None else start or EPOCH
        return origin + ((now - origin) // self._delta - 1) * self._delta

    def _end_of(self, start: datetime) -> datetime:
        return start + self._delta
