"""Why a task instance does not run: the complete list, and one sentence."""

from turnout.config.settings import SchedulerSettings
from turnout.metadata.engine import Connection
from turnout.metadata.listings.explanations import Line, Reason, TaskExplanation, Why
from turnout.metadata.listings.line import read_line
from turnout.metadata.listings.run_facts import read_run_facts
from turnout.metadata.listings.runs import find_run
from turnout.metadata.listings.spoken import in_state
from turnout.metadata.listings.task_facts import TaskFacts, read_task_facts
from turnout.metadata.listings.task_instances import no_such_task
from turnout.metadata.states import FINISHED, RUN_FINISHED, RunState, TaskState
from turnout.scheduler.explaining.attempt import ended_reasons, names_of, queued_reasons, running_reasons
from turnout.scheduler.explaining.before import before_reasons
from turnout.scheduler.explaining.limits_told import limit_reasons
from turnout.scheduler.explaining.pools import lasting_pool_reasons
from turnout.scheduler.explaining.run import reasons_not_started
from turnout.scheduler.explaining.surroundings import dag_reasons, no_worker_reasons, scheduler_reasons
from turnout.scheduler.explaining.times import time_reasons
from turnout.scheduler.explaining.wording import waits_for


def explain_task(
    connection: Connection,
    dag_id: str,
    run_id: str,
    task_id: str,
    *,
    map_index: int = -1,
    settings: SchedulerSettings | None = None,
) -> TaskExplanation:
    """Say what a task instance waits for, or where it is.

    Args:
        connection: where to read; nothing is locked or changed.
        dag_id: the DAG.
        run_id: the run.
        task_id: the task.
        map_index: its index.
        settings: those of the schedulers, for the limits that stand there.

    Raises:
        NotFoundError: there is no such DAG, run, task or map index.
    """
    limits = settings or SchedulerSettings()
    run = find_run(connection, dag_id, run_id)
    task = read_task_facts(connection, run, task_id, map_index)
    if task is None:
        state, reasons, line = (
            TaskState.NONE.value,
            _reasons_before_it_exists(connection, run, task_id, map_index, limits),
            None,
        )
    else:
        state = task.state
        line = read_line(connection, task) if state == TaskState.SCHEDULED else None
        reasons = _reasons(connection, task, line, limits)
    said = waits_for(reasons)
    verdict = f"Task {task_id} {in_state(state)} and waits: {said}." if said else reasons[0].message
    return TaskExplanation(
        dag_id=dag_id,
        dag_run_id=run_id,
        task_id=task_id,
        map_index=map_index,
        state=state,
        verdict=verdict,
        waits_for=said or None,
        reasons=reasons,
        line=line,
    )


def _reasons(connection: Connection, task: TaskFacts, line: Line | None, settings: SchedulerSettings) -> list[Reason]:
    match task.state:
        case state if state in FINISHED:
            return ended_reasons(connection, task)
        case TaskState.RUNNING:
            return running_reasons(connection, task)
        case TaskState.QUEUED:
            return queued_reasons(connection, task, settings)
        case TaskState.SCHEDULED if line is not None:
            found = [
                *_around(task),
                *_in_line(connection, task, line, settings),
                *scheduler_reasons(connection, names_of(task)),
            ]
            ready = Reason(
                Why.CAN_START,
                f"Task {task.task_id} can start now: the next pass of a scheduler will queue it.",
                "Nothing to do.",
                is_blocking=False,
            )
        case _:
            found = [
                *_of_its_own(connection, task, settings),
                *_lasting(connection, task),
                *scheduler_reasons(connection, names_of(task)),
            ]
            ready = Reason(
                Why.DECISION_DUE,
                f"All that task {task.task_id} waited for has come: the next pass of a scheduler decides about it.",
                "Nothing to do.",
                is_blocking=False,
            )
    return found if any(reason.is_blocking for reason in found) else [ready, *found]


def _of_its_own(connection: Connection, task: TaskFacts, settings: SchedulerSettings) -> list[Reason]:
    """Say what comes before its turn."""
    if task.state != TaskState.NONE:
        return time_reasons(task)
    if task.task is None:
        message = f"The DAG no longer has task {task.task_id}."
        return [Reason(Why.TASK_REMOVED, message, "Bring the task back, or clear the run to run it as the DAG is now.")]
    if task.run_state == RunState.RUNNING:
        return before_reasons(connection, task)
    if task.run_state in RUN_FINISHED:
        message = f"Its run has ended ({task.run_state}): nothing of it starts any more."
        return [Reason(Why.RUN_FINISHED, message, f"turnout runs clear {task.dag_id} {task.run_id}")]
    reasons = reasons_not_started(connection, read_run_facts(connection, task.dag_run_id), settings)
    return [reason for reason in reasons if reason.reason not in _SAID_ANYWAY]


#: What stands in the list for other reasons as well.
_SAID_ANYWAY = {Why.DAG_PAUSED, Why.DAG_GONE, Why.FILE_BROKEN, Why.NO_SCHEDULER, Why.SCHEDULER_STALLED, Why.CAN_START}


def _lasting(connection: Connection, task: TaskFacts) -> list[Reason]:
    """Say what will still be in its way when its turn has come, unless a person does something."""
    if task.task is not None and not task.task["sends_to_worker"] and task.run_state == RunState.RUNNING:
        return []  # it has nothing to run, and passes when its turn has come
    return [
        *_around(task),
        *lasting_pool_reasons(connection, task),
        *no_worker_reasons(connection, task.pool, task.queue),
    ]


def _around(task: TaskFacts) -> list[Reason]:
    return dag_reasons(task, needs_file=task.run_state == RunState.QUEUED)


def _in_line(connection: Connection, task: TaskFacts, line: Line, settings: SchedulerSettings) -> list[Reason]:
    too_small = [one for one in lasting_pool_reasons(connection, task) if one.reason is Why.POOL_TOO_SMALL]
    but = [reason.subject for reason in too_small if reason.subject]
    return [*too_small, *limit_reasons(connection, task, line, settings, but)]


def _reasons_before_it_exists(
    connection: Connection, dag_run_id: int, task_id: str, map_index: int, settings: SchedulerSettings
) -> list[Reason]:
    """Say why the run has not started, for a task that its DAG has."""
    run = read_run_facts(connection, dag_run_id)
    declared = run.content["tasks"] if run.content and run.started_at is None else ()
    if task_id not in declared or map_index >= 0:
        raise no_such_task(connection, run.id, (run.dag_id, run.run_id, task_id), map_index, declared)
    if run.state in RUN_FINISHED:
        message = f"Run {run.run_id} was ended ({run.state}) before it started, and has no tasks."
        remedy = f"Run it after all: turnout runs clear {run.dag_id} {run.run_id}"
        return [Reason(Why.RUN_FINISHED, message, remedy)]
    message = f"Run {run.run_id} has not started: its tasks come into being when it does."
    not_yet = Reason(Why.RUN_NOT_STARTED, message, f"turnout runs explain {run.dag_id} {run.run_id}", is_blocking=False)
    return [*reasons_not_started(connection, run, settings), not_yet]
