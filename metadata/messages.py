"""The message: all that the scheduler and the executor know of each other."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from turnout.config.errors import TurnoutError


class BrokerUnavailableError(TurnoutError):
    """The message broker cannot be reached."""


@dataclass(frozen=True)
class AttemptMessage:
    """A hint that an attempt is queued: ids, plus names for people. The row in the database is the truth."""

    task_instance_id: int
    attempt_id: UUID
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    pool: str
    queue: str

    @property
    def celery_queue(self) -> str:
        """The queue at the broker: one for every pool and queue name."""
        return celery_queue(self.pool, self.queue)


@dataclass(frozen=True)
class LostAttempt:
    """An attempt whose worker is dead, for those who watch the workers: it will never tell how the attempt ended."""

    task_instance_id: int
    attempt_id: UUID
    worker: str | None  # its name among Celery's workers; None when nothing is known of it any more
    is_tried_again: bool
    error: str


def celery_worker(name: str, hostname: str) -> str:
    """Name a worker among Celery's, for example `worker-1@north`."""
    return f"{name}@{hostname}"


def celery_queue(pool: str, queue: str) -> str:
    """Name the Celery queue of a pool and a queue name, for example `default_pool.default`."""
    return f"{pool}.{queue}"


@dataclass(frozen=True)
class OverdueWorker:
    """A worker that has not renewed its lease for so long that it will soon be declared dead."""

    worker_id: int
    name: str
    hostname: str


class Broker(Protocol):
    """What a scheduler needs of the broker; the command that starts a scheduler hands it over."""

    def publish(self, messages: Sequence[AttemptMessage]) -> None:
        """Publish a batch; raise BrokerUnavailableError when any of it may not have arrived."""

    def depths(self, queues: Iterable[str]) -> dict[str, int]:
        """Count the messages that wait in each Celery queue, those already delivered to a worker not included."""

    def warn(self, workers: Sequence[OverdueWorker]) -> None:
        """Tell workers that the database is well and their leases are about to be over; raise as `publish` does."""

    def tell_lost(self, lost: Sequence[LostAttempt]) -> None:
        """Tell those who watch the workers; never wait for it, and let it be when the broker is away."""

    def close(self) -> None:
        """Give up the connection."""
