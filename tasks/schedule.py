"""What may be written as `schedule=`."""

from datetime import timedelta, tzinfo

from turnout.tasks.errors import DagError
from turnout.tasks.timetables import (
    CronDataIntervalTimetable,
    DeltaDataIntervalTimetable,
    NullTimetable,
    OnceTimetable,
    Timetable,
)
from turnout.tasks.zones import zone_name

#: A cron expression, a preset such as `@daily`, a length of time, a timetable, or None for never.
Schedule = str | timedelta | Timetable | None

_BUILT_IN = (NullTimetable, OnceTimetable, CronDataIntervalTimetable, DeltaDataIntervalTimetable)


def as_timetable(schedule: object, zone: tzinfo | None) -> Timetable:
    """Return the timetable that a `schedule=` stands for.

    Args:
        schedule: what the author wrote.
        zone: the time zone of the DAG's start date, on whose wall clock a cron expression is read.

    Raises:
        DagError: it stands for nothing.
    """
    match schedule:
        case None:
            return NullTimetable()
        case "@once":
            return OnceTimetable()
        case str():
            return CronDataIntervalTimetable(schedule, zone_name(zone))
        case timedelta():
            return DeltaDataIntervalTimetable(timedelta(seconds=schedule.total_seconds()))
        case Timetable():
            return _built_in(schedule)
    raise DagError(
        f'schedule={schedule!r} is no schedule: use a cron expression such as "0 6 * * *", a preset such as "@daily", '
        "a timedelta, or None."
    )


def _built_in(timetable: Timetable) -> Timetable:
    if type(timetable) not in _BUILT_IN:
        raise DagError(
            f"schedule={timetable!r}: timetables of your own are not supported yet, for a scheduler cannot load them: "
            f"use {' or '.join(kind.__name__ for kind in _BUILT_IN[2:])}."
        )
    return timetable
