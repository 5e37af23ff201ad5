"""Timetables as JSON values, and back."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from turnout.tasks.timetables.events import EventsTimetable
from turnout.tasks.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from turnout.tasks.timetables.planned import PlannedTimetable
from turnout.tasks.timetables.simple import ContinuousTimetable, NullTimetable, OnceTimetable
from turnout.tasks.timetables.timetable import BuiltInTimetable, DagRunInfo, Timetable
from turnout.tasks.timetables.trigger import CronTriggerTimetable, DeltaTriggerTimetable, MultipleCronTriggerTimetable

_BUILT_IN = (
    NullTimetable,
    OnceTimetable,
    ContinuousTimetable,
    CronDataIntervalTimetable,
    DeltaDataIntervalTimetable,
    CronTriggerTimetable,
    MultipleCronTriggerTimetable,
    DeltaTriggerTimetable,
    EventsTimetable,
    PlannedTimetable,
)


def is_built_in(timetable: Timetable) -> bool:
    """Tell whether a scheduler can compute a timetable: one of an author's own it cannot, nor a subclass of ours."""
    return type(timetable) in _BUILT_IN


def timetable_to_json(timetable: Timetable) -> dict[str, Any]:
    """Write a timetable as JSON values; of one of an author's own, only what people read."""
    if isinstance(timetable, BuiltInTimetable) and is_built_in(timetable):
        return timetable.to_json()
    return PlannedTimetable(str(timetable.summary)).to_json()


def timetable_from_json(data: Mapping[str, Any], planned: Sequence[DagRunInfo] = ()) -> BuiltInTimetable:
    """Read a timetable that `timetable_to_json` wrote.

    Args:
        data: what was written.
        planned: the runs that were planned ahead, for a timetable of an author's own.

    Raises:
        ValueError: the type of timetable is unknown here.
    """
    kind = data["type"]
    if kind == "custom":
        return PlannedTimetable(data["summary"], planned)
    if kind not in _READERS:
        raise ValueError(f"Unknown timetable {data!r}.")
    return _READERS[kind](data)


def _seconds(data: Mapping[str, Any], key: str) -> timedelta:
    return timedelta(seconds=data[key])


def _read_cron_trigger(data: Mapping[str, Any]) -> BuiltInTimetable:
    interval = _seconds(data, "interval_s")
    return MultipleCronTriggerTimetable(*data["expressions"], timezone=data["timezone"], interval=interval)


def _read_events(data: Mapping[str, Any]) -> BuiltInTimetable:
    dates = map(datetime.fromisoformat, data["dates"])
    return EventsTimetable(dates, data["restrict_to_events"], data["description"])


_READERS: dict[str, Callable[[Mapping[str, Any]], BuiltInTimetable]] = {
    "none": lambda _: NullTimetable(),
    "once": lambda _: OnceTimetable(),
    "continuous": lambda _: ContinuousTimetable(),
    "cron": lambda data: CronDataIntervalTimetable(data["expression"], data["timezone"]),
    "delta": lambda data: DeltaDataIntervalTimetable(_seconds(data, "seconds")),
    "cron_trigger": _read_cron_trigger,
    "delta_trigger": lambda data: DeltaTriggerTimetable(_seconds(data, "seconds"), _seconds(data, "interval_s")),
    "events": _read_events,
}
