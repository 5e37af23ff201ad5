"""Task instances that are published, run or have ended: where they are, and what might be wrong there."""

from turnout.config.settings import SchedulerSettings
from turnout.metadata.engine import Connection
from turnout.metadata.listings.explanations import Reason, Why
from turnout.metadata.listings.platform_facts import count_late, live_worker_facts
from turnout.metadata.listings.spoken import counted, duration, listed
from turnout.metadata.listings.task_facts import TaskFacts
from turnout.metadata.messages import celery_queue
from turnout.metadata.states import TaskState
from turnout.scheduler.explaining.before import blocking_upstream
from turnout.scheduler.explaining.surroundings import no_worker_reason, scheduler_reasons

_UPSTREAM_STATES = {
    TaskState.UPSTREAM_FAILED: frozenset({TaskState.FAILED, TaskState.UPSTREAM_FAILED}),
    TaskState.SKIPPED: frozenset({TaskState.SKIPPED}),
}


def names_of(task: TaskFacts) -> dict[str, str]:
    """Name a task instance as a scheduler that leaves it or its run alone does."""
    return {
        "dag_id": task.dag_id,
        "run_id": task.run_id,
        "task_id": task.task_id,
        "task_instance_id": str(task.id),
    }


def ended_reasons(connection: Connection, task: TaskFacts) -> list[Reason]:
    """Say how a task instance ended, and why."""
    ago = f" {duration((task.now - task.ended_at).total_seconds())} ago" if task.ended_at else ""
    where = f" on {task.worker}" if task.worker and task.started_at else ""
    cause = f" ({task.cause})" if task.cause else ""
    before = [] if task.started_at or task.cause else _upstream_to_blame(connection, task)
    because = f": upstream {listed(before)}" if before else f": {_one_line(task.error)}" if task.error else ""
    message = f"Task {task.task_id} has ended: {task.state}{cause}{where}{ago}{because.rstrip('.')}."
    remedy = "Nothing to do."
    if task.state not in {TaskState.SUCCESS, TaskState.REMOVED}:
        remedy = f"Run it again: turnout tasks clear {task.dag_id} {task.run_id} -t {task.task_id}"
    return [Reason(Why.FINISHED, message, remedy, is_blocking=False, who=before[:3], who_count=len(before))]


def running_reasons(connection: Connection, task: TaskFacts) -> list[Reason]:
    """Say where a task instance runs and since when; and when its worker has fallen silent."""
    since = duration((task.now - (task.started_at or task.now)).total_seconds())
    tries = f"try {task.try_number} of {task.max_tries + 1 + task.infra_failures}"
    message = f"Task {task.task_id} has been running on {task.worker} (host {task.hostname}) for {since}: {tries}."
    log = f"Read its log: turnout tasks logs {task.dag_id} {task.run_id} {task.task_id}"
    running = Reason(Why.RUNNING, message, log, is_blocking=False, who=[task.worker or "a worker that is forgotten"])
    if task.worker_is_alive:
        return [running]
    silent_s = (task.now - (task.worker_heartbeat_at or task.started_at or task.now)).total_seconds()
    message = (
        f"Worker {task.worker or 'that ran it'} holds no lease any more, and was last heard of {duration(silent_s)} "
        "ago. A scheduler will end this attempt and have it tried again elsewhere."
    )
    silent = Reason(Why.WORKER_SILENT, message, "Wait, and look after that worker.", is_blocking=False)
    return [running, silent, *scheduler_reasons(connection, names_of(task))]


def queued_reasons(connection: Connection, task: TaskFacts, settings: SchedulerSettings) -> list[Reason]:
    """Say since when a task instance is published, and what may keep a worker from claiming it."""
    waiting_s = (task.now - (task.queued_at or task.now)).total_seconds()
    queue = celery_queue(task.pool, task.queue)
    message = (
        f"It was queued for {queue} {duration(waiting_s)} ago by {task.scheduler}, and no worker has claimed it yet"
    )
    workers = live_worker_facts(connection)
    serving = [worker for worker in workers if worker.serves(task.pool, task.queue)]
    if serving:
        busy, slots = sum(worker.running for worker in serving), sum(worker.slots for worker in serving)
        message += f": {counted(len(serving), 'live worker')} of that queue with {busy} of {slots} slots busy"
    return [
        Reason(Why.NOT_CLAIMED, f"{message}.", _what_to_do(connection, task, waiting_s, settings), who=[queue]),
        *([] if serving else [no_worker_reason(workers, task.pool, task.queue)]),
        *scheduler_reasons(connection, names_of(task), is_published=True),
    ]


def _what_to_do(connection: Connection, task: TaskFacts, waiting_s: float, settings: SchedulerSettings) -> str:
    patience_s = settings.message_patience_s
    if not task.scheduler_is_alive:
        return "Wait: the scheduler that queued it has gone, and another one will queue it anew."
    if waiting_s < patience_s:
        return "Wait: a worker claims within a second, unless it is busy."
    late, _ = count_late(connection, patience_s)
    return (
        f"{counted(late, 'attempt has', 'attempts have')} waited so for more than {duration(patience_s)}: the broker "
        "may be away, or the workers cut off from it. See turnout config check, and turnout queues list."
    )


def _upstream_to_blame(connection: Connection, task: TaskFacts) -> list[str]:
    states = _UPSTREAM_STATES.get(TaskState(task.state))
    return blocking_upstream(connection, task, states) if states else []


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]
