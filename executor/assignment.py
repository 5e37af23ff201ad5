"""What travels between the worker's main process and a child: the work, and how it ended.

Both must stay below PIPE_BUF (4096 bytes) as far as they can: then a write into the child's pipe is all or nothing, and
losing the broker or a child never leaves half a message behind. What is large goes over the channel instead.
"""

from dataclasses import dataclass
from typing import Literal

from turnout.tasks.callbacks import Call
from turnout.tasks.context import RunFacts

#: JSON above this size, in bytes, goes over the channel.
INLINE_BYTES = 2048
#: The exit code of a child that cannot report any more; nothing else is likely to use it.
PIPES_CLOSED_EXIT = 176
PIPES_CLOSED = (
    "The task closed file descriptors that are not its own (os.closerange?), so that its process could not report. "
    "Close what the task has opened, or run the code in a subprocess."
)
#: From the time at which a callback should have stopped to that at which its process is killed, in seconds.
_KILL_GRACE_S = 5


@dataclass(frozen=True)
class Assignment:
    """All that a child needs to run one attempt."""

    facts: RunFacts
    dag_file: str
    dags_folder: str
    log_file: str
    log_max_bytes: int
    token: str  # proves to the channel which attempt is asking
    channel: str  # path of the channel's socket
    fetch_conf: bool  # the run's conf is large: ask the channel for it
    import_timeout_s: float
    xcom_max_bytes: int


@dataclass(frozen=True)
class CallbackAssignment:
    """All that a callback process needs for one callback."""

    assignment: Assignment  # of the task instance; without a task it is one of the run
    call: Call
    timeout_s: float  # for the callbacks themselves; the process is killed somewhat later

    @property
    def deadline_s(self) -> float:
        """After how long the process is killed: it may have to start and to import the DAG file first."""
        return self.assignment.import_timeout_s + self.timeout_s + _KILL_GRACE_S


def too_long(timeout_s: float) -> str:
    """Say that callbacks took too long."""
    return f"It took longer than {timeout_s:g} s (setting worker.callback_timeout_s)."


@dataclass(frozen=True)
class ChildReport:
    """How an attempt ended, as its child saw it."""

    outcome: Literal["success", "skipped", "failed"]
    retry: bool = True
    error: str | None = None
    cause: str | None = None
    return_value: str | None = None
    return_value_sent: bool = False  # it was large, and went over the channel
    was_stopped: bool = False  # SIGTERM arrived meanwhile
