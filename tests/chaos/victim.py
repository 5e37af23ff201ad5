"""The victim: a real scheduler that stops itself, for good or for a while, between two statements of its loop.

A *point* is where it can be stopped: before each statement, before each commit, between a commit and the next
transaction, and before and after publishing. Which points there are is found by a pass that is let through.
"""

import json
import math
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import Engine, event

from turnout.config.settings import SchedulerSettings, Settings
from turnout.executor.publisher import CeleryBroker
from turnout.metadata.errors import MetadataError
from turnout.metadata.messages import AttemptMessage, Broker, LostAttempt, OverdueWorker
from turnout.scheduler.loop import Scheduler

#: Timers that never come due, and a lease that never ends, unless a test says so.
NEVER_S = 3600.0
_STEPS = ("create_runs", "start_runs", "decide", "queue", "repair")


@dataclass(frozen=True)
class Order:
    """What a victim is to do.

    Attributes:
        folder: where it writes the points that it came by.
        database_url: the database on which it makes one pass.
        broker_url: the broker.
        point: where it sends itself the signal; None: nowhere.
        signal: SIGKILL or SIGSTOP.
    """

    folder: Path
    database_url: str
    broker_url: str
    point: str | None = None
    signal: int = signal.SIGKILL

    @property
    def settings(self) -> Settings:
        """The settings of the victim, and of whoever comes after it."""
        return Settings(
            home=self.folder,
            database_url=SecretStr(self.database_url),
            broker_url=SecretStr(self.broker_url),
            scheduler=SchedulerSettings(
                lease_s=NEVER_S, repair_interval_s=NEVER_S, sweep_interval_s=NEVER_S, parallelism=1000
            ),
        )


class Points:
    """The points that are reached, each with a name that says where it is."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._step = ""
        self.names: list[str] = []
        self.statements: set[str] = set()

    def reach(self, what: str, *, step: str | None = None) -> None:
        """Reach a point, which may be the last one."""
        self._step = step or self._step
        name = f"{len(self.names):03} {self._step}: {what}"
        self.names.append(name)
        self._stop_at(name)

    def reach_beside(self, what: str) -> None:
        """Reach a point of the thread that publishes, which goes on beside the loop."""
        self._stop_at(f"publish: {what}")

    def _stop_at(self, name: str) -> None:
        if name == self._order.point:
            os.kill(os.getpid(), self._order.signal)

    def watch(self, engine: Engine) -> None:
        """Take every statement and every commit of an engine for a point."""
        event.listen(engine, "begin", lambda _: self.reach("before a transaction"))
        event.listen(engine, "commit", lambda _: self.reach("before the commit"))
        event.listen(engine, "before_cursor_execute", self._on_statement)
        event.listen(engine, "before_execute", self._note)

    def _note(self, _c: Any, element: Any, *_more: Any) -> None:
        self.statements.add(str(getattr(element, "text", "")))

    def _on_statement(self, _c: Any, _cursor: Any, statement: str, _p: Any, _context: Any, _many: bool) -> None:
        self.reach(" ".join(statement.split())[:60], step=_step_in_hand())


class WatchedBroker:
    """The broker, with a point before and after each batch."""

    def __init__(self, broker: Broker, points: Points) -> None:
        self._broker = broker
        self._points = points

    def publish(self, messages: Sequence[AttemptMessage]) -> None:
        self._points.reach_beside("before the batch")
        self._broker.publish(messages)
        self._points.reach_beside("after the batch")

    def depths(self, queues: Iterable[str]) -> dict[str, int]:
        return self._broker.depths(queues)

    def warn(self, workers: Sequence[OverdueWorker]) -> None:
        self._broker.warn(workers)

    def tell_lost(self, lost: Sequence[LostAttempt]) -> None:
        self._broker.tell_lost(lost)

    def close(self) -> None:
        self._broker.close()


PUBLISHING = ("publish: before the batch", "publish: after the batch")


def run(order: Order) -> None:
    """Make one pass; the process ends with 0, or with 1 when the database refused to go on."""
    points = Points(order)
    broker = WatchedBroker(CeleryBroker(order.settings), points)
    scheduler = Scheduler(order.settings, broker, "victim")
    scheduler._lease.start()
    scheduler._lease._steady_since = -math.inf  # it has had the database for long, and may judge
    scheduler._publisher.start()
    points.watch(scheduler._engine)
    try:
        scheduler.run_once()
        points.reach("after the pass")
        scheduler._reaper._next_sweep = 0.0
        scheduler._reaper.run_once()
        points.reach("after the sweep")
    except MetadataError as error:
        (order.folder / "refused").write_text(type(error).__name__)
        sys.exit(1)
    finally:
        scheduler._publisher.stop()
    found = {"points": points.names, "statements": sorted(points.statements)}
    (order.folder / "rehearsal").write_text(json.dumps(found))


def _step_in_hand() -> str | None:
    """Find out which module of the scheduler asked for a statement."""
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        module = str(frame.f_globals.get("__name__", ""))
        step = module.removeprefix("turnout.scheduler.")
        if step in _STEPS:
            return step
    return None
