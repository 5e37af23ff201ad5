"""When a DAG runs, and which stretch of data each run is for.

A run is for a data interval and starts once that interval has closed. The logical date is the interval's start.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from turnout.tasks.cron import CronClock
from turnout.tasks.errors import DagError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DataInterval:
    """A stretch of time in UTC, from `start` up to but not including `end`."""

    start: datetime
    end: datetime


@dataclass(frozen=True)
class PlannedRun:
    """A run that a timetable wants: `run_after` is the earliest moment to start it."""

    logical_date: datetime
    data_interval: DataInterval
    run_after: datetime


class Timetable(ABC):
    """A rule that says when a DAG runs. All its moments are in UTC."""

    @abstractmethod
    def next_run(
        self, last: DataInterval | None, start: datetime | None, end: datetime | None, catchup: bool, now: datetime
    ) -> PlannedRun | None:
        """Say which run comes next, be it due or still to come.

        Args:
            last: the data interval of the latest scheduled run, if there was one.
            start: the DAG's start date: no interval starts earlier.
            end: the DAG's end date: no interval starts later.
            catchup: whether intervals that closed while nobody looked get their runs; otherwise only the latest does.
            now: the present moment.

        Returns:
            The run, or None when there is none to come.
        """

    @abstractmethod
    def manual_interval(self, run_after: datetime) -> DataInterval:
        """Return the data interval of a run that a person starts at `run_after`: the latest that has closed."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return what `timetable_from_json` reads."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """How a person would write it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timetable) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(tuple(self.to_json().items()))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.summary}>"


class NullTimetable(Timetable):
    """Never: runs are started by hand only (`schedule=None`)."""

    def next_run(
        self,
        last: DataInterval | None,  # noqa: ARG002
        start: datetime | None,  # noqa: ARG002
        end: datetime | None,  # noqa: ARG002
        catchup: bool,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> PlannedRun | None:
        """Return None: nothing is ever scheduled."""
        return None

    def manual_interval(self, run_after: datetime) -> DataInterval:
        """Return the empty interval at `run_after`."""
        return DataInterval(run_after, run_after)

    def to_json(self) -> dict[str, Any]:
        """Return what `timetable_from_json` reads."""
        return {"type": "none"}

    @property
    def summary(self) -> str:
        """How a person would write it."""
        return "None"


class OnceTimetable(Timetable):
    """Once, at the start date, or at once when there is none (`schedule="@once"`)."""

    def next_run(
        self,
        last: DataInterval | None,
        start: datetime | None,
        end: datetime | None,
        catchup: bool,  # noqa: ARG002 - the one run is due whether or not it is late
        now: datetime,
    ) -> PlannedRun | None:
        """Return the only run, unless it was there already."""
        moment = start or now
        if last is not None or (end is not None and moment > end):
            return None
        return PlannedRun(moment, DataInterval(moment, moment), moment)

    def manual_interval(self, run_after: datetime) -> DataInterval:
        """Return the empty interval at `run_after`."""
        return DataInterval(run_after, run_after)

    def to_json(self) -> dict[str, Any]:
        """Return what `timetable_from_json` reads."""
        return {"type": "once"}

    @property
    def summary(self) -> str:
        """How a person would write it."""
        return "@once"


class _IntervalTimetable(Timetable):
    """Data intervals that follow one another without a gap."""

    def next_run(
        self, last: DataInterval | None, start: datetime | None, end: datetime | None, catchup: bool, now: datetime
    ) -> PlannedRun | None:
        """Return the run of the first interval that is wanted and has no run yet."""
        starts = [] if start is None else [self._first_start(start)]
        if last is not None:
            starts.append(self._start_after(last))
        if not catchup:
            starts.append(self._latest_closed_start(last, start, now))
        if not starts or (end is not None and max(starts) > end):
            return None
        interval = DataInterval(max(starts), self._end_of(max(starts)))
        return PlannedRun(interval.start, interval, interval.end)

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
        timezone: the zone whose wall clock the expression is about.
    """

    def __init__(self, cron: str, timezone: str = "UTC") -> None:
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
        if delta <= timedelta(0):
            raise DagError(f"schedule={delta!r} is not a length of time above zero.")
        self._delta = delta

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
        origin = last.end if last is not None else start or _EPOCH
        return origin + ((now - origin) // self._delta - 1) * self._delta

    def _end_of(self, start: datetime) -> datetime:
        return start + self._delta


def timetable_from_json(data: Mapping[str, Any]) -> Timetable:
    """Read a timetable that `Timetable.to_json` wrote.

    Raises:
        ValueError: the type of timetable is unknown here.
    """
    kind: Literal["none", "once", "cron", "delta"] = data["type"]
    match kind:
        case "none":
            return NullTimetable()
        case "once":
            return OnceTimetable()
        case "cron":
            return CronDataIntervalTimetable(data["expression"], data["timezone"])
        case "delta":
            return DeltaDataIntervalTimetable(timedelta(seconds=data["seconds"]))
    raise ValueError(f"Unknown timetable {data!r}.")
