"""The loop of a scheduler. Every scheduler runs the same one; there is no leader, and row locks keep them apart.

1. create runs   what the timetables say is due becomes queued runs
2. start runs    queued runs become running ones within `max_active_runs`, in turn over the DAGs
3. decide        news of runs, time-outs and due retries become new states of task instances, and runs end
4. queue         waiting task instances become queued ones, in order and within every limit: the critical section
5. publish       what was queued goes to the broker, after the commit, by a thread of its own
6. repair        on a timer: what dead processes, lost messages and lost wake-ups left behind

A step is one module with one public entry. The *fence*: a transaction counts only while this scheduler holds its lease.
The *guard*: a DAG, a run or a task instance that cannot be dealt with is left alone, and the step goes on without it.
A pass that did something is followed by another; then the loop sleeps until the next timer, or until a notification
wakes it. It never forks, parses a DAG file, or waits for the broker.
"""

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TypeVar

import structlog

from turnout.config.outage import Outage
from turnout.config.settings import Settings
from turnout.metadata.engine import Connection, open_engine, transact
from turnout.metadata.errors import MetadataError, TermOverError
from turnout.metadata.messages import Broker
from turnout.metadata.migrate import require_current
from turnout.metadata.processes import LoopReport, Registration
from turnout.metadata.timers import seconds_until_next_due
from turnout.metadata.versions import VersionCache
from turnout.scheduler.create_runs import create_due_runs
from turnout.scheduler.decide import decide
from turnout.scheduler.diary import Diary
from turnout.scheduler.guard import Each, Guard
from turnout.scheduler.lease import Lease
from turnout.scheduler.publish import Publisher
from turnout.scheduler.queue import Queued, queue_ready
from turnout.scheduler.repair import Reaper
from turnout.scheduler.start_runs import start_runs
from turnout.scheduler.waker import Waker

log = structlog.get_logger(__name__)

#: How soon a scheduler looks again at a pool that another one was serving.
CONTENDED_PAUSE_S = 0.02
#: How long the lease takes at most, on a good day, to begin a new term.
NEW_TERM_PAUSE_S = 0.1

T = TypeVar("T")


@dataclass(frozen=True)
class Pass:
    """What one pass over the steps did."""

    created: int
    started: int
    decided: int
    moved: int
    finished: int
    queued: int
    repaired: int
    is_contended: bool
    more_in_s: float | None  # when more may be queued without anybody saying so

    @property
    def did_something(self) -> bool:
        """Whether anything changed, so that another pass may find more to do."""
        return any((self.created, self.started, self.decided, self.moved, self.queued, self.repaired))


class Scheduler:
    """One scheduler.

    Args:
        settings: the settings.
        broker: what it needs of the broker; closed by whoever made it.
        name: what it is called in the registry.
    """

    def __init__(self, settings: Settings, broker: Broker, name: str) -> None:
        url, lease_s = settings.database.get_secret_value(), settings.scheduler.lease_s
        self._batch, self._parallelism = settings.scheduler.batch_size, settings.scheduler.parallelism
        self._backfill_share = settings.scheduler.backfill_share
        # A scheduler that is paused inside a transaction loses its locks when its lease is over.
        self._engine = open_engine(url, name=name, idle_in_transaction_s=lease_s)
        self._versions = VersionCache()
        self._guard = Guard()
        self._diary = Diary()
        self._lease = Lease(url, Registration("scheduler", name, lease_s), self._report)
        self._publisher = Publisher(broker)
        self._reaper = Reaper(self._engine, broker, self._lease, settings)
        self._waker = Waker(url, name)
        self._outage = Outage("database")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loop", daemon=True)

    def start(self) -> None:
        """Register and begin.

        Raises:
            DatabaseUnavailableError: the database cannot be reached.
            SchemaError: its tables are not those of this version.
        """
        require_current(self._engine)
        self._lease.start()
        self._publisher.start()
        self._waker.start()
        self._thread.start()

    def stop(self) -> None:
        """End the pass that is under way, publish what it queued, and end the term; a second call does nothing."""
        self._stopping.set()
        self._waker.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._publisher.stop()
        self._lease.stop()
        self._engine.dispose()

    def run_once(self) -> Pass:
        """Run every step once.

        Raises:
            TermOverError: the lease of this scheduler is over; what the step in hand did is undone.
            MetadataError: the database cannot be used.
        """
        created = self._guarded(lambda c, each: create_due_runs(c, self._batch, each))
        started = self._guarded(lambda c, each: start_runs(c, self._batch, each, self._backfill_share))
        decided = self._guarded(lambda c, each: decide(c, self._versions, self._batch, each))
        queued = self._guarded(self._queue_ready)
        self._publisher.submit(queued.messages)
        repaired = self._reaper.run_if_due()
        return Pass(
            created=created,
            started=started,
            decided=decided.runs,
            moved=decided.moved,
            finished=decided.finished,
            queued=len(queued.messages),
            repaired=repaired.attempts,
            is_contended=queued.is_contended,
            more_in_s=queued.more_in_s,
        )

    def _queue_ready(self, connection: Connection, each: Each) -> Queued:
        return queue_ready(connection, self._lease.process_id, self._batch, self._parallelism, each)

    def _guarded(self, step: Callable[[Connection, Each], T]) -> T:
        return self._guard.transact(lambda work: self._lease.transact(self._engine, work), step)

    def _report(self) -> LoopReport | None:
        outage = self._publisher.broker_outage or self._reaper.broker_outage
        return self._diary.report(outage, self._guard.left_alone.troubles())

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._waker.take_news()
            try:
                done = self.run_once()
                self._diary.note(asdict(done), did_something=done.did_something)
                pause_s = 0.0 if done.did_something else self._pause_s(done)
            except TermOverError:  # this scheduler was paused or cut off, and begins anew
                self._stopping.wait(NEW_TERM_PAUSE_S)
            except MetadataError as error:
                self._stopping.wait(self._outage.note(error))
            except Exception:  # a bug in one step: say so, and do not die of it, since the next pass may get further
                log.exception("loop.failed")
                self._stopping.wait(self._outage.note(RuntimeError("see loop.failed")))
            else:
                self._outage.over()
                self._waker.sleep(pause_s)

    def _pause_s(self, done: Pass) -> float:
        timers = [self._reaper.due_in_s, transact(self._engine, seconds_until_next_due), done.more_in_s]
        if done.is_contended:
            timers.append(CONTENDED_PAUSE_S)
        return min(timer for timer in timers if timer is not None)
