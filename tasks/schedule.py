"""What may be written as `schedule=` and `catchup=`."""

from datetime import timedelta, tzinfo
from enum import StrEnum

from turnout.tasks.errors import DagError
from turnout.tasks.timetables import (
    BuiltInTimetable,
    ContinuousTimetable,
    CronDataIntervalTimetable,
    DeltaDataIntervalTimetable,
    EventsTimetable,
    NullTimetable,
    OnceTimetable,
    Timetable,
)
from turnout.tasks.values import check_choice
from turnout.tasks.zones import zone_name

#: A cron expression, a preset such as `@daily`, a length of time, a timetable, or None for never.
Schedule = str | timedelta | Timetable | None


class CatchUp(StrEnum):
    """What becomes of the runs that a DAG has missed: while it was paused, while no scheduler lived, before it existed.

    Attributes:
        NONE: none of them is run: the first run is the first that comes due once the DAG is there and unpaused.
        LATEST: only the latest of them is (`catchup=False`).
        ALL: each of them is (`catchup=True`).
        COALESCE: one run is, whose data interval is that of all of them together.
    """

    NONE = "none"
    LATEST = "latest"
    ALL = "all"
    COALESCE = "coalesce"


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
        case "@continuous":
            return ContinuousTimetable()
        case str():
            return CronDataIntervalTimetable(schedule, zone_name(zone))
        case timedelta():
            return DeltaDataIntervalTimetable(timedelta(seconds=schedule.total_seconds()))
        case Timetable():
            return schedule
    raise DagError(
        f'schedule={schedule!r} is no schedule: use a cron expression such as "0 6 * * *", a preset such as "@daily", '
        "a timedelta, a timetable, or None."
    )


def as_catchup(catchup: object, timetable: Timetable) -> CatchUp:
    """Return the policy that a `catchup=` stands for; True and False mean what they mean in Airflow.

    Raises:
        DagError: it stands for nothing.
    """
    if catchup is True:
        return CatchUp.ALL
    if catchup is False:
        # In Airflow, too, an event that has passed is the only thing that never runs late.
        return CatchUp.NONE if isinstance(timetable, EventsTimetable) else CatchUp.LATEST
    return CatchUp(check_choice(catchup, [word.value for word in CatchUp], "catchup"))


def can_begin_anywhere(timetable: Timetable) -> bool:
    """Tell whether nothing but a start date says where a timetable begins."""
    return not isinstance(timetable, BuiltInTimetable) or (
        timetable.can_miss and not isinstance(timetable, EventsTimetable)
    )
