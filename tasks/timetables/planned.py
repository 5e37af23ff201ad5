"""A timetable of an author's own as schedulers know it: the runs that the DAG processor planned ahead."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from turnout.tasks.timetables.timetable import BuiltInTimetable, DagRunInfo, DataInterval


class PlannedTimetable(BuiltInTimetable):
    """Runs that were planned ahead, in order.

    Args:
        summary: how a person would write the timetable.
        runs: the runs; their DAG's dates have been minded already.
    """

    def __init__(self, summary: str, runs: Sequence[DagRunInfo] = ()) -> None:
        self._summary = summary
        self._runs = runs

    def next_run(
        self,
        last: DataInterval | None,
        start: datetime | None,  # noqa: ARG002 - the author's code has minded it
        now: datetime,  # noqa: ARG002 - the runs are there
    ) -> DagRunInfo | None:
        """Return the first planned run after the last."""
        return next((run for run in self._runs if last is None or run.data_interval.end > last.end), None)

    def latest_run(
        self,
        last: DataInterval | None,  # noqa: ARG002 - the runs are there
        start: datetime | None,  # noqa: ARG002 - the same
        now: datetime,
    ) -> DagRunInfo | None:
        """Return the latest planned run that is due by now."""
        return next((run for run in reversed(self._runs) if run.run_after <= now), None)

    def allows(self, run: DagRunInfo, end: datetime) -> bool:  # noqa: ARG002 - the author's code has minded it
        """Tell that a planned run is wanted."""
        return True

    def manual_interval(self, run_after: datetime) -> DataInterval:
        """Return the interval of the latest planned run that is due, or else the empty one at `run_after`."""
        latest = self.latest_run(None, None, run_after)
        return latest.data_interval if latest else DataInterval.exact(run_after)

    def to_json(self) -> dict[str, Any]:
        """Return what `timetable_from_json` reads."""
        return {"type": "custom", "summary": self._summary}

    def _run_of(self, logical_date: datetime) -> DagRunInfo | None:
        return next((run for run in self._runs if run.logical_date == logical_date), None)

    @property
    def summary(self) -> str:
        """How a person would write it."""
        return self._summary
