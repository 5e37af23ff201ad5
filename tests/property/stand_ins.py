"""What a scheduler meets in the property test in place of a broker and of a lease."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from sqlalchemy import event

from turnout.metadata import processes
from turnout.metadata.engine import Connection, Engine, transact
from turnout.metadata.messages import AttemptMessage, LostAttempt, OverdueWorker

T = TypeVar("T")


class HeldBroker:
    """A broker whose messages stay until a test takes them."""

    def __init__(self) -> None:
        self.messages: list[AttemptMessage] = []
        self.lost: list[LostAttempt] = []

    def publish(self, messages: Sequence[AttemptMessage]) -> None:
        self.messages += messages

    def depths(self, queues: Iterable[str]) -> dict[str, int]:
        held = Counter(message.celery_queue for message in self.messages)
        return {queue: held[queue] for queue in queues}

    def warn(self, _workers: Sequence[OverdueWorker]) -> None:
        """Nobody listens."""

    def tell_lost(self, lost: Sequence[LostAttempt]) -> None:
        self.lost += lost

    def close(self) -> None:
        self.messages.clear()

    def of_pools(self) -> dict[str, int]:
        return Counter(message.pool for message in self.messages)


class SteadyLease:
    """The lease of a scheduler that has had the database for ever, so that it may judge others."""

    steady_s = float("inf")

    def __init__(self, process_id: int) -> None:
        self.process_id = process_id

    def transact(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        def fenced(connection: Connection) -> T:
            result = work(connection)
            processes.fence(connection, self.process_id)
            return result

        return transact(engine, fenced)


class Chance:
    """What PostgreSQL's `random()` gives: the same in every transaction that begins with the same seed."""

    def __init__(self, engine: Engine) -> None:
        self.seed: float = 0
        event.listen(engine, "begin", self._begin)

    def _begin(self, connection: Connection) -> None:
        connection.exec_driver_sql("SELECT setseed(%(seed)s)", {"seed": self.seed})
