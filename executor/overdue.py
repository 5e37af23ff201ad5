"""What a scheduler tells a worker over the broker: your lease is about to be over, although the database is well.

A worker that cannot reach the database cannot know whether anybody can. While nobody can, its attempts had better go
on: nobody takes them for lost. If only this worker cannot, others will begin them anew when its lease is over, so they
must have ended by then. Whoever sends this has had the database without a break, and that is the answer.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from celery import Celery
from celery.worker.control import control_command
from kombu import Connection

from turnout.metadata.messages import OverdueWorker, celery_worker

_COMMAND = "turnout_overdue"


def send(app: Celery, connection: Connection, workers: Sequence[OverdueWorker]) -> None:
    """Tell workers, if they listen; nobody answers."""
    app.control.broadcast(
        _COMMAND,
        arguments={"worker_ids": [worker.worker_id for worker in workers]},
        destination=[celery_worker(worker.name, worker.hostname) for worker in workers],
        connection=connection,
    )


def listen(on_overdue: Callable[[Collection[int]], None]) -> None:
    """Have the worker of this process call a function, in its event loop, with the terms that are overdue."""

    @control_command(name=_COMMAND)  # type: ignore[untyped-decorator]  # celery has no types
    def receive(_state: Any, worker_ids: Sequence[int]) -> None:
        on_overdue(frozenset(worker_ids))
