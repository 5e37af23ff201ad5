"""Reasons that do not lie with the task or the run itself: schedulers, workers, and the DAG and its file."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from turnout.metadata.engine import Connection
from turnout.metadata.listings.explanations import Reason, Why
from turnout.metadata.listings.missing import near_name
from turnout.metadata.listings.platform_facts import (
    SchedulerFacts,
    TroubleFacts,
    WorkerFacts,
    last_scheduler,
    live_schedulers,
    live_worker_facts,
)
from turnout.metadata.listings.spoken import duration, listed
from turnout.metadata.messages import celery_queue
from turnout.metadata.routing import paused_by

#: A loop ends a pass at least every few seconds, unless it hangs or its database does.
STALLED_S = 60.0


class DagFacts(Protocol):
    """What is known of the DAG around a task instance or a run."""

    @property
    def now(self) -> datetime: ...  # noqa: D102  it says it
    @property
    def dag_id(self) -> str: ...  # noqa: D102
    @property
    def is_paused(self) -> bool: ...  # noqa: D102
    @property
    def is_active(self) -> bool: ...  # noqa: D102
    @property
    def file_path(self) -> str: ...  # noqa: D102
    @property
    def import_error(self) -> str | None: ...  # noqa: D102
    @property
    def import_error_line(self) -> int | None: ...  # noqa: D102
    @property
    def import_error_at(self) -> datetime | None: ...  # noqa: D102


def scheduler_reasons(connection: Connection, names: Mapping[str, str], *, is_published: bool = False) -> list[Reason]:
    """Say when no scheduler lives, when those that live stand still, and what they cannot do.

    Args:
        connection: where to read.
        names: what a scheduler would call that which waits, if it left it alone: `dag_id`, `run_id`, …
        is_published: whether it waits for its message, and so for the broker.
    """
    schedulers = live_schedulers(connection)
    if not schedulers:
        return [_no_scheduler(connection)]
    troubles = [trouble for scheduler in schedulers for trouble in scheduler.troubles]
    return [
        *_stalled(schedulers),
        *[_refused(trouble) for trouble in troubles if trouble.what == "refused" and _is_about(trouble, names)],
        *_broker_down([trouble for trouble in troubles if trouble.what == "broker"], is_published=is_published),
    ]


def _stalled(schedulers: Sequence[SchedulerFacts]) -> list[Reason]:
    quiet_s = min(scheduler.quiet_s for scheduler in schedulers)
    if quiet_s < STALLED_S:
        return []
    names = [scheduler.name for scheduler in schedulers]
    return [
        Reason(
            Why.SCHEDULER_STALLED,
            f"No scheduler has ended a loop for {duration(quiet_s)}, though {listed(names)} "
            f"{'is' if len(names) == 1 else 'are'} alive.",
            "Look into the log of the schedulers, and restart them.",
            who=names,
            who_count=len(names),
        )
    ]


def _is_about(trouble: TroubleFacts, names: Mapping[str, str]) -> bool:
    return trouble.where.items() <= names.items()


def _refused(trouble: TroubleFacts) -> Reason:
    what = " ".join(f"{name} {value}" for name, value in trouble.where.items())
    message = f"Scheduler {trouble.scheduler} was refused what it was to do for {what}: {trouble.error.rstrip('.')}."
    remedy = f"It tries again every half minute. See step.refused in the log of {trouble.scheduler}."
    return Reason(Why.REFUSED, message, remedy, trouble.scheduler)


def _broker_down(troubles: Sequence[TroubleFacts], *, is_published: bool) -> list[Reason]:
    if not troubles:
        return []
    names = [trouble.scheduler for trouble in troubles]
    first = min(troubles, key=lambda trouble: trouble.since)
    message = f"{listed(names)} cannot reach the broker since {first.since:%H:%M:%S} UTC: {first.error.rstrip('.')}."
    remedy = "Bring the broker back: nothing is lost, and what is queued is published again."
    return [
        Reason(Why.BROKER_DOWN, message, remedy, is_blocking=is_published, who=names[:3], who_count=len(names)),
    ]


def dag_reasons(dag: DagFacts, *, needs_file: bool) -> list[Reason]:
    """Say when the DAG is paused, when no file declares it any longer, and when its file is broken.

    Args:
        dag: what is known of it.
        needs_file: whether nothing goes on without a file that declares the DAG.
    """
    reasons = []
    if dag.is_paused:
        message = f"DAG {dag.dag_id} is paused."
        reasons.append(Reason(Why.DAG_PAUSED, message, f"turnout dags unpause {dag.dag_id}", dag.dag_id))
    if not dag.is_active:
        message = f"{dag.file_path} no longer declares DAG {dag.dag_id}, or is gone."
        remedy = "Bring the file back, or see `turnout dags import-errors`."
        reasons.append(Reason(Why.DAG_GONE, message, remedy, dag.file_path, is_blocking=needs_file))
    if dag.import_error is not None and dag.import_error_at is not None:
        line = f", line {dag.import_error_line}" if dag.import_error_line else ""
        since = duration((dag.now - dag.import_error_at).total_seconds())
        message = f"{dag.file_path}{line} cannot be imported since {since}: {_first_line(dag.import_error)}"
        remedy = "Correct the file: schedulers go on with its last good version, workers read the file."
        reasons.append(Reason(Why.FILE_BROKEN, message, remedy, dag.file_path, is_blocking=False))
    return reasons


def no_worker_reasons(connection: Connection, pool: str, queue: str) -> list[Reason]:
    """Say when a queue is paused, and when no live worker serves it in a pool."""
    workers = live_worker_facts(connection)
    is_served = any(worker.serves(pool, queue) for worker in workers)
    return [*paused_queue_reasons(connection, queue), *([] if is_served else [no_worker_reason(workers, pool, queue)])]


def paused_queue_reasons(connection: Connection, queue: str) -> list[Reason]:
    """Say when a queue is paused."""
    actor = paused_by(connection, queue)
    if actor is None:
        return []
    message = f"Queue {queue} is paused by {actor}."
    return [Reason(Why.QUEUE_PAUSED, message, f"turnout queues unpause {queue}", queue)]


def no_worker_reason(workers: Sequence[WorkerFacts], pool: str, queue: str) -> Reason:
    """Say that no live worker serves a queue of a pool, and what the live ones do serve."""
    return Reason(
        Why.NO_WORKER,
        f"No live worker serves queue {queue} of pool {pool}: {_served(workers)}.",
        f"{_hint(workers, pool, queue)}Start one: turnout worker --queues {queue}",
        celery_queue(pool, queue),
        limit=0,
        needed=1,
        who=[worker.name for worker in workers[:3]],
        who_count=len(workers),
    )


def _no_scheduler(connection: Connection) -> Reason:
    last = last_scheduler(connection)
    gone = f"; the last one, {last[0]}, went at {last[1]:%Y-%m-%d %H:%M:%S} UTC" if last else ""
    return Reason(
        Why.NO_SCHEDULER, f"No scheduler is alive{gone}.", "Start one: `turnout scheduler`.", limit=0, needed=1
    )


def _served(workers: Sequence[WorkerFacts]) -> str:
    if not workers:
        return "no worker is alive at all"
    said = [
        f"{worker.name} serves {', '.join(worker.queues) or 'no queue'}"
        + ("" if worker.pools is None else f" of {', '.join(worker.pools) or 'no pool'}")
        + (f", but takes nothing new ({worker.closed_for})" if worker.closed_for else "")
        for worker in workers
    ]
    return listed(said)


def _hint(workers: Iterable[WorkerFacts], pool: str, queue: str) -> str:
    """Suggest the queue that was probably meant."""
    near = near_name(queue, {name for worker in workers if worker.takes(pool) for name in worker.queues})
    return f"Did the task mean queue {near}? " if near else ""


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else "no message"
    return line if line.endswith(".") else f"{line}."
