"""What all timetables have in common, and what authors write timetables of their own with. All moments are in UTC."""

import json
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple, Self


class DataInterval(NamedTuple):
    """A stretch of time, from `start` up to but not including `end`."""

    start: datetime
    end: datetime

    @classmethod
    def exact(cls, at: datetime) -> Self:
        """Return the empty interval at a moment."""
        return cls(at, at)


class DagRunInfo(NamedTuple):
    """A run that a timetable wants: `run_after` is the earliest moment to start it."""

    run_after: datetime
    data_interval: DataInterval

    @classmethod
    def interval(cls, start: datetime, end: datetime) -> Self:
        """Return the run for an interval, which starts when the interval has closed."""
        return cls(end, DataInterval(start, end))

    @classmethod
    def exact(cls, at: datetime) -> Self:
        """Return the run at a moment, for no stretch of data."""
        return cls(at, DataInterval.exact(at))

    @property
    def logical_date(self) -> datetime:
        """The start of the data interval; no two runs of a DAG have the same."""
        return self.data_interval.start


class TimeRestriction(NamedTuple):
    """What a DAG says of its runs: its start date, its end date, and whether runs that were missed are wanted."""

    earliest: datetime | None
    latest: datetime | None
    catchup: bool


class Timetable(ABC):
    """A rule that says when a DAG runs. Subclass it to make one of your own.

    Your code runs where the DAG file is loaded, never in a scheduler: the DAG processor asks for a few hundred runs
    ahead and stores them. It asks anew at every parse, so the answers may change, but they must not take long.
    """

    @abstractmethod
    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Say which run comes next, be it due or still to come.

        Args:
            last_automated_data_interval: the data interval of the scheduled run before it; None for the first.
            restriction: the DAG's dates; `catchup` is false when it is enough to begin at the latest run that is due.

        Returns:
            The run, whose data interval must start and end later than that of the run before; None when there is none
            to come.
        """

    @property
    def summary(self) -> str:
        """How a person would write it."""
        return type(self).__name__

    def manual_interval(self, run_after: datetime) -> DataInterval:
        """Return the data interval of a run that a person starts at `run_after`: the latest that has closed."""
        restriction = TimeRestriction(None, None, catchup=False)
        latest = self.next_dagrun_info(last_automated_data_interval=None, restriction=restriction)
        return latest.data_interval if latest and latest.run_after <= run_after else DataInterval.exact(run_after)

    def interval_of(self, logical_date: datetime) -> DataInterval:
        """Return the data interval of the scheduled run of a logical date, or else of a run by hand at that moment."""
        run = self._run_of(logical_date)
        return run.data_interval if run and run.logical_date == logical_date else self.manual_interval(logical_date)

    def _run_of(self, logical_date: datetime) -> DagRunInfo | None:
        restriction = TimeRestriction(logical_date, None, catchup=True)
        return self.next_dagrun_info(last_automated_data_interval=None, restriction=restriction)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.summary}>"


class BuiltInTimetable(Timetable):
    """A timetable that is stored as data, so that a scheduler can compute it."""

    #: Whether runs can be missed; those of other timetables come late, whatever the DAG's policy for missed runs.
    can_miss: ClassVar[bool] = True
    #: Whether a run begins where the one before has ended, so that it is not known earlier.
    follows_runs: ClassVar[bool] = False

    @abstractmethod
    def next_run(self, last: DataInterval | None, start: datetime | None, now: datetime) -> DagRunInfo | None:
        """Say which run comes next, whether or not it was missed.

        Args:
            last: the data interval of the scheduled run before it, if there was one.
            start: the DAG's start date.
            now: the present moment.
        """

    @abstractmethod
    def latest_run(self, last: DataInterval | None, start: datetime | None, now: datetime) -> DagRunInfo | None:
        """Say which of all runs is the latest that is due by now, if there is one."""

    @abstractmethod
    def allows(self, run: DagRunInfo, end: datetime) -> bool:
        """Tell whether a run is not beyond the DAG's end date."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return what `timetable_from_json` reads."""

    def run_from(
        self, last: DataInterval | None, start: datetime | None, now: datetime, *, catchup: bool
    ) -> DagRunInfo | None:
        """Say which run comes next; without `catchup`, that is the latest that is due, unless it has run."""
        run = self.next_run(last, start, now)
        latest = None if run is None or catchup or not self.can_miss else self.latest_run(last, start, now)
        return run if run is None or latest is None else max(run, latest)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Say which run comes next, for timetables that are made of this one."""
        earliest, latest, catchup = restriction
        run = self.run_from(last_automated_data_interval, earliest, datetime.now(UTC), catchup=catchup)
        return run if run and (latest is None or self.allows(run, latest)) else None

    def _run_of(self, logical_date: datetime) -> DagRunInfo | None:
        return self.next_run(None, logical_date, logical_date)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BuiltInTimetable) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json()))
