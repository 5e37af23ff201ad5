"""The law of states: the only place where states live and where it is written who may change them.

`LAW` is one table of (from, event, to, actors). The database repeats the states as CHECK constraints, the diagram
in the docs is drawn from `mermaid`, and `tests/integration/metadata/test_states.py` holds the three together.
Every change in this package is a compare-and-set along one row of this table.
"""

from enum import StrEnum
from typing import Literal, NamedTuple

Actor = Literal["scheduler", "worker", "person"]


class TaskState(StrEnum):
    """State of a task instance."""

    NONE = "none"
    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    UPSTREAM_FAILED = "upstream_failed"
    UP_FOR_RETRY = "up_for_retry"
    UP_FOR_RESCHEDULE = "up_for_reschedule"
    DEFERRED = "deferred"
    REMOVED = "removed"


class RunState(StrEnum):
    """State of a DAG run."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"


class Outcome(StrEnum):
    """How an attempt ended."""

    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    #: An infra failure of an attempt that had started.
    LOST = "lost"
    #: The attempt never started: its message was lost, or whoever held it gave it back.
    RETURNED = "returned"
    #: Ended from outside: a person cleared, marked or cancelled it, or its run came to an end over it.
    CANCELLED = "cancelled"


class Cause(StrEnum):
    """Why an attempt ended other than by its own success: the typed value behind the sentence in `error`."""

    ERROR = "error"
    TIMEOUT = "timeout"
    CHILD_EXITED = "child_exited"
    CHILD_KILLED = "child_killed"
    MEMORY_LIMIT = "memory_limit"
    CPU_TIME_LIMIT = "cpu_time_limit"
    WORKER_LOST = "worker_lost"
    WORKER_STOPPED = "worker_stopped"
    SCHEDULER_LOST = "scheduler_lost"
    MESSAGE_LOST = "message_lost"
    NO_WORKER = "no_worker"
    IMPORT_TIMEOUT = "import_timeout"
    CLEARED = "cleared"
    MARKED = "marked"
    CANCELLED = "cancelled"
    FAIL_FAST = "fail_fast"
    RUN_TIMEOUT = "run_timeout"
    TASK_REMOVED = "task_removed"
    POOL_TOO_SMALL = "pool_too_small"


class TaskEvent(StrEnum):
    """What callbacks are called for: `on_<event>_callback`. Those of a run know `success` and `failure` only."""

    EXECUTE = "execute"
    SUCCESS = "success"
    FAILURE = "failure"
    RETRY = "retry"
    SKIPPED = "skipped"


class CallbackState(StrEnum):
    """State of a callback that a transition has called for."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"


FINISHED = frozenset(
    {TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED, TaskState.REMOVED}
)
UNFINISHED = frozenset(TaskState) - FINISHED
#: How a task must have ended in the run before, for one that depends on it; `removed`: it is no longer there.
GOOD_PAST = frozenset({TaskState.SUCCESS, TaskState.SKIPPED, TaskState.REMOVED})
#: States in which a task instance occupies its pool slots.
ACTIVE = frozenset({TaskState.QUEUED, TaskState.RUNNING})
RUN_FINISHED = frozenset({RunState.SUCCESS, RunState.FAILED})


class Law(NamedTuple):
    """One row of the law: in state `before`, `event` leads to `after`, and only `actors` may cause it."""

    before: TaskState | RunState
    event: str
    after: TaskState | RunState
    actors: tuple[Actor, ...]


_T = TaskState
LAW: tuple[Law, ...] = (
    Law(_T.NONE, "schedule", _T.SCHEDULED, ("scheduler",)),
    Law(_T.NONE, "pass", _T.SUCCESS, ("scheduler",)),  # a task that has nothing to run
    Law(_T.NONE, "skip", _T.SKIPPED, ("scheduler",)),
    Law(_T.NONE, "upstream_fail", _T.UPSTREAM_FAILED, ("scheduler",)),
    Law(_T.SCHEDULED, "refuse", _T.FAILED, ("scheduler",)),  # it needs more slots than its pool has
    Law(_T.SCHEDULED, "queue", _T.QUEUED, ("scheduler",)),  # here, and only here, attempt_id is renewed
    Law(_T.QUEUED, "claim", _T.RUNNING, ("worker",)),
    Law(_T.QUEUED, "give_back", _T.SCHEDULED, ("scheduler", "worker")),  # never started: nothing is counted
    Law(_T.RUNNING, "succeed", _T.SUCCESS, ("worker",)),
    Law(_T.RUNNING, "fail", _T.FAILED, ("worker", "scheduler")),
    Law(_T.RUNNING, "skip", _T.SKIPPED, ("worker",)),
    Law(_T.RUNNING, "retry", _T.UP_FOR_RETRY, ("worker",)),
    Law(_T.RUNNING, "lose", _T.SCHEDULED, ("worker", "scheduler")),  # an infra failure below its own limit
    Law(_T.RUNNING, "reschedule", _T.UP_FOR_RESCHEDULE, ("worker",)),
    Law(_T.RUNNING, "defer", _T.DEFERRED, ("worker",)),
    Law(_T.UP_FOR_RETRY, "due", _T.SCHEDULED, ("scheduler",)),
    Law(_T.UP_FOR_RESCHEDULE, "due", _T.SCHEDULED, ("scheduler",)),
    Law(_T.DEFERRED, "resume", _T.SCHEDULED, ("scheduler",)),
    # Its task is gone; what a worker has, or is about to have, comes to an end by itself.
    *(Law(state, "remove", _T.REMOVED, ("scheduler",)) for state in TaskState if state in UNFINISHED - ACTIVE),
    # A run that is to fail fast, or whose time is over, ends with all that is left of it.
    *(
        Law(state, "fail_fast", _T.FAILED if state == _T.RUNNING else _T.SKIPPED, ("scheduler",))
        for state in TaskState
        if state in UNFINISHED
    ),
    *(Law(state, "run_time_out", _T.SKIPPED, ("scheduler",)) for state in TaskState if state in UNFINISHED),
    *(Law(state, "cancel", _T.FAILED, ("person",)) for state in TaskState if state in UNFINISHED),
    # What has not begun of a run that is cancelled.
    *(Law(state, "call_off", _T.SKIPPED, ("person",)) for state in (_T.NONE, _T.SCHEDULED, _T.QUEUED)),
    # The attempt moves to the archive, and the row has none until it is queued again.
    *(Law(state, "clear", _T.NONE, ("person",)) for state in TaskState if state != _T.NONE),
    *(
        Law(state, f"mark_{marked}", marked, ("person",))
        for marked in (_T.SUCCESS, _T.FAILED, _T.SKIPPED)
        for state in TaskState
        if state != marked
    ),
)

RUN_LAW: tuple[Law, ...] = (
    Law(RunState.QUEUED, "start", RunState.RUNNING, ("scheduler",)),
    Law(RunState.RUNNING, "succeed", RunState.SUCCESS, ("scheduler",)),
    Law(RunState.RUNNING, "fail", RunState.FAILED, ("scheduler",)),
    Law(RunState.QUEUED, "cancel", RunState.FAILED, ("person",)),
    Law(RunState.RUNNING, "cancel", RunState.FAILED, ("person",)),
    *(
        Law(state, f"mark_{marked}", marked, ("person",))
        for marked in (RunState.SUCCESS, RunState.FAILED)
        for state in RunState
        if state != marked
    ),
    Law(RunState.SUCCESS, "clear", RunState.QUEUED, ("person",)),
    Law(RunState.FAILED, "clear", RunState.QUEUED, ("person",)),
)


def mermaid(law: tuple[Law, ...]) -> str:
    """Draw a law as a Mermaid state diagram, one line for every pair of states."""
    lines: dict[tuple[str, str], list[str]] = {}
    for row in law:
        lines.setdefault((row.before, row.after), []).append(f"{row.event} ({', '.join(row.actors)})")
    arrows = [f"    {before} --> {after}: {'; '.join(events)}" for (before, after), events in lines.items()]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {law[0].before}", *arrows, ""])
