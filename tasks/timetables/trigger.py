"""Timetables of moments: a run is for a moment, and starts at it; its data interval is what the author says."""

from abc import abstractmethod
from datetime import datetime, timedelta, tzinfo
from typing import Any

from turnout.tasks.cron import CronClock
from turnout.tasks.errors import DagError
from turnout.tasks.timetables.checks import check_length
from turnout.tasks.timetables.interval import EPOCH
from turnout.tasks.timetables.timetable import BuiltInTimetable, DagRunInfo, DataInterval
from turnout.tasks.values import as_duration

_NO_TIME = timedelta(0)


class _TriggerTimetable(BuiltInTimetable):
    """Moments at which runs start, each for the data interval of one length that ends there (none by default)."""

    def __init__(self, interval: timedelta) -> None:
        self._interval = as_duration(interval, "interval")

    def next_run(self, last: DataInterval | None, start: datetime | None, now: datetime) -> DagRunInfo | None:
        """Return the run of the moment after the last, or else of the first from the start date on."""
        moments = [] if start is None else [self._first_from(start)]
        if last is not None:
            moments.append(self._first_after(last.end))
        return self._run(max(moments)) if moments else self.latest_run(last, start, now)

    def latest_run(self, last: DataInterval | None, start: datetime | None, now: datetime) -> DagRunInfo | None:
        """Return the run of the latest moment until now."""
        return self._run(self._last_until(now, last.end if last else start))

    def allows(self, run: DagRunInfo, end: datetime) -> bool:
        """Tell whether the moment of a run is no later than the DAG's end date."""
        return run.data_interval.end <= end

    def manual_interval(self, run_after: datetime) -> DataInterval:
        """Return the interval that ends at `run_after`."""
        return DataInterval(run_after - self._interval, run_after)

    def _run_of(self, logical_date: datetime) -> DagRunInfo | None:
        return super()._run_of(logical_date + self._interval)

    def _run(self, moment: datetime) -> DagRunInfo:
        return DagRunInfo.interval(moment - self._interval, moment)

    def _interval_json(self) -> dict[str, Any]:
        return {"interval_s": self._interval.total_seconds()}

    @abstractmethod
    def _first_from(self, start: datetime) -> datetime:
        """Return the first moment that is not before a start date."""

    @abstractmethod
    def _first_after(self, last: datetime) -> datetime:
        """Return the moment after the last, also when the schedule has changed in between."""

    @abstractmethod
    def _last_until(self, now: datetime, origin: datetime | None) -> datetime:
        """Return the latest moment, this one included; moments may be counted from an origin."""


class MultipleCronTriggerTimetable(_TriggerTimetable):
    """A run whenever one of several cron expressions fires; one run where several fire at the same moment.

    Args:
        crons: the expressions, as for `CronTriggerTimetable`.
        timezone: the zone whose wall clock they are about, as a name or a `tzinfo`.
        interval: the length of the data interval, which ends when the run starts.
    """

    def __init__(self, *crons: str, timezone: str | tzinfo, interval: timedelta = _NO_TIME) -> None:
        super().__init__(interval)
        if not crons:
            raise DagError("A timetable of cron expressions needs at least one.")
        self._clocks = [CronClock(cron, timezone) for cron in crons]

    def to_json(self) -> dict[str, Any]:
        """Return what `timetable_from_json` reads."""
        expressions = [clock.expression for clock in self._clocks]
        return {
            "type": "cron_trigger",
            "expressions": expressions,
            "timezone": self._clocks[0].timezone,
            **self._interval_json(),
        }

    @property
    def summary(self) -> str:
        """How a person would write it."""
        return ", ".join(clock.expression for clock in self._clocks)

    def _first_from(self, start: datetime) -> datetime:
        return min(clock.first_from(start) for clock in self._clocks)

    def _first_after(self, last: datetime) -> datetime:
        return min(clock.first_after(last) for clock in self._clocks)

    def _last_until(self, now: datetime, origin: datetime | None) -> datetime:  # noqa: ARG002 - a clock has none
        return max(clock.last_until(now) for clock in self._clocks)


class CronTriggerTimetable(MultipleCronTriggerTimetable):
    """A run whenever a cron expression fires, at once: its logical date is the moment itself.

    Args:
        cron: five fields, six with seconds at the end, or a preset such as `@daily`.
        timezone: the zone whose wall clock the expression is about, as a name or a `tzinfo`.
        interval: the length of the data interval, which ends when the run starts; then the logical date is its start.
    """

    def __init__(self, cron: str, timezone: str | tzinfo, interval: timedelta = _NO_TIME) -> None:
        super().__init__(cron, timezone=timezone, interval=interval)


class DeltaTriggerTimetable(_TriggerTimetable):
    """A run whenever a length of real time has passed, counted from the start date, where the first run is.

    Args:
        delta: the length.
        interval: the length of the data interval, which ends when the run starts.
    """

    def __init__(self, delta: timedelta, interval: timedelta = _NO_TIME) -> None:
        super().__init__(interval)
        self._delta = check_length(delta, "delta")

    def to_json(self) -> dict[str, Any]:
        """Return what `timetable_from_json` reads."""
        return {"type": "delta_trigger", "seconds": self._delta.total_seconds(), **self._interval_json()}

    @property
    def summary(self) -> str:
        """How a person would write it."""
        return str(self._delta)

    def _first_from(self, start: datetime) -> datetime:
        return start

    def _first_after(self, last: datetime) -> datetime:
        return last + self._delta

    def _last_until(self, now: datetime, origin: datetime | None) -> datetime:
        origin = origin or EPOCH
        return origin + (now - origin) // self._delta * self._delta
