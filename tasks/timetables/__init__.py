"""When a DAG runs, and which stretch of data each run is for."""

from turnout.tasks.timetables.ahead import Plan, plan_ahead
from turnout.tasks.timetables.events import EventsTimetable
from turnout.tasks.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from turnout.tasks.timetables.planned import PlannedTimetable
from turnout.tasks.timetables.simple import ContinuousTimetable, NullTimetable, OnceTimetable
from turnout.tasks.timetables.stored import is_built_in, timetable_from_json, timetable_to_json
from turnout.tasks.timetables.timetable import BuiltInTimetable, DagRunInfo, DataInterval, TimeRestriction, Timetable
from turnout.tasks.timetables.trigger import CronTriggerTimetable, DeltaTriggerTimetable, MultipleCronTriggerTimetable

__all__ = [
    "BuiltInTimetable",
    "ContinuousTimetable",
    "CronDataIntervalTimetable",
    "CronTriggerTimetable",
    "DagRunInfo",
    "DataInterval",
    "DeltaDataIntervalTimetable",
    "DeltaTriggerTimetable",
    "EventsTimetable",
    "MultipleCronTriggerTimetable",
    "NullTimetable",
    "OnceTimetable",
    "Plan",
    "PlannedTimetable",
    "TimeRestriction",
    "Timetable",
    "is_built_in",
    "plan_ahead",
    "timetable_from_json",
    "timetable_to_json",
]
