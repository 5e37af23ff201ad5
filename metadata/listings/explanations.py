"""Why something waits, as people and programs read it: a stable word, numbers, names, and what to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Why(StrEnum):
    """The stable word of a reason."""

    # Nothing is waited for.
    FINISHED = "finished"
    RUNNING = "running"
    CAN_START = "can_start"
    DECISION_DUE = "decision_due"
    # What comes before the task.
    UPSTREAM = "upstream"
    PAST_RUN = "past_run"
    RETRY_TIME = "retry_time"
    RESCHEDULE_TIME = "reschedule_time"
    DEFERRED = "deferred"
    TASK_REMOVED = "task_removed"
    # Its run and its DAG.
    DAG_PAUSED = "dag_paused"
    DAG_GONE = "dag_gone"
    FILE_BROKEN = "file_broken"
    RUN_NOT_STARTED = "run_not_started"
    RUN_AFTER = "run_after"
    RUN_FINISHED = "run_finished"
    MAX_ACTIVE_RUNS = "max_active_runs"
    RUNS_BEFORE = "runs_before"
    BACKFILL_SHARE = "backfill_share"
    TASKS_UNFINISHED = "tasks_unfinished"
    # Limits.
    MAX_ACTIVE_TASKS = "max_active_tasks"
    MAX_ACTIVE_TIS_PER_DAG = "max_active_tis_per_dag"
    MAX_ACTIVE_TIS_PER_DAGRUN = "max_active_tis_per_dagrun"
    PARALLELISM = "parallelism"
    POOL_MISSING = "pool_missing"
    POOL_TOO_SMALL = "pool_too_small"
    POOL_FULL = "pool_full"
    POOL_RESERVED = "pool_reserved"
    POOL_RATE = "pool_rate"
    # Workers and schedulers.
    NO_WORKER = "no_worker"
    QUEUE_PAUSED = "queue_paused"
    WORKERS_BUSY = "workers_busy"
    NOT_CLAIMED = "not_claimed"
    NO_SCHEDULER = "no_scheduler"
    SCHEDULER_STALLED = "scheduler_stalled"
    REFUSED = "refused"
    BROKER_DOWN = "broker_down"
    WORKER_SILENT = "worker_silent"


@dataclass(frozen=True)
class Reason:
    """One thing that is waited for, or a fact that a person should know."""

    reason: Why
    message: str
    remedy: str
    subject: str | None = None  # the name of the pool, queue, run, … that it is about
    is_blocking: bool = True
    limit: int | None = None
    used: int | None = None  # of the limit, by `who` and others
    needed: int | None = None  # of the limit
    until: datetime | None = None  # when it passes by itself, if that is known
    who: Sequence[str] = ()  # who holds it or goes first: the first few, as `DAG_ID RUN_ID TASK_ID`
    who_count: int | None = None  # how many there are in all


@dataclass(frozen=True)
class Line:
    """The place of a waiting task instance among those of its pool."""

    pool: str
    queue: str
    before: int  # how many go before it
    is_cut: bool  # at least so many
    first: Sequence[str]  # the first few of them
    run_priority: int
    priority_weight: int
    run_date: datetime


@dataclass(frozen=True)
class TaskExplanation:
    """Why a task instance is in the state in which it is."""

    dag_id: str
    dag_run_id: str
    task_id: str
    map_index: int
    state: str
    verdict: str
    waits_for: str | None  # the verdict without the names of task and state; None: it waits for nothing
    reasons: Sequence[Reason]
    line: Line | None = None


@dataclass(frozen=True)
class RunExplanation:
    """Why a run is in the state in which it is."""

    dag_id: str
    dag_run_id: str
    state: str
    verdict: str
    waits_for: str | None
    reasons: Sequence[Reason]
