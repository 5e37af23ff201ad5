"""Timetables without a clock: never, once, and one run after the other."""

from datetime import datetime
from typing import Any, ClassVar

from turnout.tasks.timetables.timetable import BuiltInTimetable, DagRunInfo, DataInterval


class _SimpleTimetable(BuiltInTimetable):
    """A timetable of which no run can be missed."""

    can_miss: ClassVar[bool] = False

    def latest_run(
        self,
        last: DataInterval | None,  # noqa: ARG002 - nothing is skipped
        start: datetime | None,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> DagRunInfo | None:
        """Return None: there is nothing to skip to."""
        return None

    def allows(self, run: DagRunInfo, end: datetime) -> bool:
        """Tell whether a run is not beyond the DAG's end date."""
        return run.data_interval.end <= end

    def manual_interval(self, run_after: datetime) -> DataInterval:
        """Return the empty interval at `run_after`."""
        return DataInterval.exact(run_after)


class NullTimetable(_SimpleTimetable):
    """Never: runs are started by hand only (`schedule=None`)."""

    def next_run(
        self,
        last: DataInterval | None,  # noqa: ARG002
        start: datetime | None,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> DagRunInfo | None:
        """Return None: nothing is ever scheduled."""
        return None

    def to_json(self) -> dict[str, Any]:
        """Return what `timetable_from_json` reads."""
        return {"type": "none"}

    @property
    def summary(self) -> str:
        """How a person would write it."""
        return "None"


class OnceTimetable(_SimpleTimetable):
    """Once, at the start date, or at once when there is none (`schedule="@once"`)."""

    def next_run(self, last: DataInterval | None, start: datetime | None, now: datetime) -> DagRunInfo | None:
        """Return the only run, unless it was there already."""
        return None if last else DagRunInfo.exact(start or now)

    def to_json(self) -> dict[str, Any]:
        """Return what `timetable_from_json` reads."""
        return {"type": "once"}

    @property
    def summary(self) -> str:
        """How a person would write it."""
        return "@once"


class ContinuousTimetable(_SimpleTimetable):
    """One run after the other, each created when the one before has ended (`schedule="@continuous"`).

    The data intervals follow one another without a gap, from the start date on.
    """

    follows_runs: ClassVar[bool] = True

    def next_run(self, last: DataInterval | None, start: datetime | None, now: datetime) -> DagRunInfo | None:
        """Return the run up to now from where the run before ended."""
        begin = last.end if last else start or now
        # Never empty: the run after it must have another logical date.
        return DagRunInfo.interval(begin, max(now, begin + datetime.resolution))

    def to_json(self) -> dict[str, Any]:
        """Return what `timetable_from_json` reads."""
        return {"type": "continuous"}

    @property
    def summary(self) -> str:
        """How a person would write it."""
        return "@continuous"
