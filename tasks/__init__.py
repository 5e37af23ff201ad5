"""What DAG authors import: `from turnout.tasks import dag, task`."""

from turnout.tasks.apprise_notifier import AppriseNotifier
from turnout.tasks.bash import BashOperator
from turnout.tasks.context import Context, get_current_context
from turnout.tasks.dag_decorator import dag
from turnout.tasks.dags import DAG
from turnout.tasks.empty import EmptyOperator
from turnout.tasks.linking import chain
from turnout.tasks.masking import mask_secret
from turnout.tasks.notifier import BaseNotifier
from turnout.tasks.operator import BaseOperator
from turnout.tasks.python import PythonOperator
from turnout.tasks.references import XComArg
from turnout.tasks.signals import TaskFailed, TaskSkipped, TaskTimeout
from turnout.tasks.task_decorator import setup, task, teardown
from turnout.tasks.timetables import (
    ContinuousTimetable,
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    DagRunInfo,
    DataInterval,
    DeltaDataIntervalTimetable,
    DeltaTriggerTimetable,
    EventsTimetable,
    MultipleCronTriggerTimetable,
    NullTimetable,
    OnceTimetable,
    TimeRestriction,
    Timetable,
)
from turnout.tasks.trigger_rule import TriggerRule

__all__ = [
    "DAG",
    "AppriseNotifier",
    "BaseNotifier",
    "BaseOperator",
    "BashOperator",
    "Context",
    "ContinuousTimetable",
    "CronDataIntervalTimetable",
    "CronTriggerTimetable",
    "DagRunInfo",
    "DataInterval",
    "DeltaDataIntervalTimetable",
    "DeltaTriggerTimetable",
    "EmptyOperator",
    "EventsTimetable",
    "MultipleCronTriggerTimetable",
    "NullTimetable",
    "OnceTimetable",
    "PythonOperator",
    "TaskFailed",
    "TaskSkipped",
    "TaskTimeout",
    "TimeRestriction",
    "Timetable",
    "TriggerRule",
    "XComArg",
    "chain",
    "dag",
    "get_current_context",
    "mask_secret",
    "setup",
    "task",
    "teardown",
]
