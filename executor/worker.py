"""The worker: Celery's consumer and prefork pool, with our own claims, outcomes and lease around them."""

import gc
import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from celery import Celery, signals
from celery.exceptions import WorkerShutdown
from celery.worker import WorkController
from kombu.exceptions import KombuError

from turnout.config.masking import Masker
from turnout.config.settings import Settings
from turnout.executor import overdue
from turnout.executor.app import declared_queue, make_app, unavailable
from turnout.executor.assigning import Assigner
from turnout.executor.callbacks import Callbacks
from turnout.executor.channel import Channel
from turnout.executor.claims import Claims, Request
from turnout.executor.descendants import stop_with_parent, take_in_orphans
from turnout.executor.hand_off import HandOff
from turnout.executor.heartbeat import Heartbeat
from turnout.executor.isolation import forget_parent
from turnout.executor.limit_watch import LimitWatch
from turnout.executor.load import LoadMeter
from turnout.executor.log_keeping import LogKeeping
from turnout.executor.loop_calls import LoopCalls
from turnout.executor.outcomes import Ended, Outcomes
from turnout.executor.pool import AttemptPool
from turnout.executor.roster import Roster
from turnout.executor.shutdown import Shutdown
from turnout.executor.stopping import Stopper
from turnout.executor.term import Term
from turnout.metadata.engine import open_engine, transact
from turnout.metadata.messages import celery_queue, celery_worker
from turnout.metadata.migrate import require_current
from turnout.metadata.pools import pool_names
from turnout.metadata.processes import Registration

log = structlog.get_logger(__name__)

#: The database budget of a worker and all its children: one connection to claim, one to finish; heartbeats and XComs
#: use whichever is free.
CONNECTIONS = 2
#: The threads of a worker do little at a time and hand over to each other; with Python's default of 5 ms, each
#: hand-over may wait so long for the interpreter's lock.
SWITCH_INTERVAL_S = 0.0005


@dataclass(frozen=True)
class WorkerOptions:
    """What one worker serves.

    Attributes:
        name: its name in the registry.
        queues: queue names that it serves.
        pools: pools that it serves; None for all, also those made later.
        concurrency: attempts that it runs at the same time.
        least_children: with this, children come and go with the work, from so many to one for each slot.
        runs_callbacks: whether it also runs callbacks, which take no slots.
    """

    name: str
    queues: Sequence[str]
    pools: Sequence[str] | None
    concurrency: int
    least_children: int | None = None
    runs_callbacks: bool = True


class Worker:
    """The parts of a worker, and the order in which they start and stop.

    Args:
        settings: the settings.
        options: what it serves.

    Raises:
        DatabaseUnavailableError, BrokerUnavailableError: one of the servers cannot be reached.
        SchemaError: the tables are not those of this version.
    """

    def __init__(self, settings: Settings, options: WorkerOptions) -> None:
        self._options = options
        self._engine = open_engine(settings.database.get_secret_value(), name=options.name, connections=CONNECTIONS)
        require_current(self._engine)
        pools = options.pools or transact(self._engine, pool_names)
        self._app = make_app(settings, [celery_queue(pool, queue) for pool in pools for queue in options.queues])
        _check_broker(self._app)
        roster, term = Roster(), Term()
        self._calls = LoopCalls()
        self._stopper = Stopper(
            roster, kill_grace_s=settings.worker.kill_grace_s, import_timeout_s=settings.worker.import_timeout_s
        )
        self._outcomes = Outcomes(
            self._engine,
            roster,
            masker=Masker(settings.passwords()),
            on_finished=self._note_finished,
        )
        self._watch = LimitWatch(roster, self._stopper)
        self._limits = (self._stopper, self._watch)
        self._hand_off = HandOff(
            calls=self._calls,
            slots=options.concurrency,
            roster=roster,
            stopper=self._stopper,
            max_infra_retries=settings.scheduler.max_infra_retries,
            watch=self._watch.look_after,
            put_outcome=self._outcomes.put,
            on_full=None if self._app.conf.worker_disable_prefetch else self._set_full,
            on_idle=self._shut_down,
        )
        self._logs = LogKeeping(settings, roster)
        self._channel = Channel(self._engine, roster, self._stopper, xcom_max_bytes=settings.xcom.max_bytes)
        assigner = Assigner(settings, self._channel.path)
        self._callbacks = Callbacks(
            settings,
            engine=self._engine,
            roster=roster,
            term=term,
            assigner=assigner,
            folder=Path(self._channel.path).parent,
            subprocesses=AttemptPool.subprocesses,
            on_death=partial(self._calls.put, self._kill_orphans),
        )
        self._claims = Claims(
            engine=self._engine,
            roster=roster,
            term=term,
            assigner=assigner,
            log_file=self._logs.file_of,
            on_claimed=partial(self._calls.put, self._hand_off.take_claimed),
            on_returned=partial(self._calls.put, self._hand_off.take_returned),
        )
        self._heartbeat = Heartbeat(
            registration=_registration(settings, options),
            warning_s=settings.warning_s,
            engine=self._engine,
            term=term,
            roster=roster,
            stopper=self._stopper,
            on_pools=self._note_pools,
            on_door=lambda reason: self._calls.put(self._mind_door, reason),
            on_callbacks=self._callbacks.look,
            measure=LoadMeter(roster, settings.worker.max_load, settings.worker.max_memory_mb).measure,
        )
        self._shutdown = Shutdown(roster, self._stopper, lambda: self._calls.put(self._drain), self._callbacks.hurry)
        self._celery = _make_controller(
            self._app,
            settings,
            options,
            ready_callback=self._on_ready,
            calls=self._calls,
            receive=self._hand_off.receive,
        )
        overdue.listen(self._heartbeat.take_warning)
        self._pools = set(pools)

    def run(self) -> int:
        """Run until told to stop; return the exit code."""
        # Children share what is in memory now; without this, their first garbage collection would copy all of it.
        gc.freeze()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        take_in_orphans()
        self._shutdown.listen()
        self._shutdown.start()
        self._calls.connect(self._celery.hub)
        self._hand_off.connect(self._celery.pool, self._claims)
        try:
            self._celery.start()
        finally:  # also when the event loop was left by an exception: a term that is not ended holds up others
            self._stop_services()
        log.info("worker.stopped", exit_code=self._celery.exitcode or 0)
        return self._celery.exitcode or 0

    def _stop_services(self) -> None:
        self._callbacks.stop()  # while the heartbeat still keeps them from being given to others
        for service in (self._claims, self._outcomes, self._heartbeat, self._channel, *self._limits, self._shutdown):
            service.stop()
        self._heartbeat.end_term()
        self._logs.stop()
        AttemptPool.subprocesses.watchdog.stop()
        self._engine.dispose()

    def _on_ready(self, _consumer: Any) -> None:
        """Start what needs a worker that can consume; the heartbeat registers it."""
        for service in (*self._limits, self._channel, self._callbacks, self._claims, self._outcomes, self._heartbeat):
            service.start()
        self._logs.start()
        log.info("worker.ready", queues=sorted(self._app.amqp.queues.consume_from), slots=self._options.concurrency)

    def _note_finished(self, ended: Sequence[Ended]) -> None:
        self._calls.put(self._hand_off.take_finished, ended)
        if self._options.runs_callbacks and any(attempt.task.get("callbacks") for attempt, _ in ended):
            self._callbacks.look()  # it may have called for one

    def _note_pools(self, pools: Sequence[str]) -> None:
        if self._options.pools is None and set(pools) != self._pools:
            new, gone = set(pools) - self._pools, self._pools - set(pools)
            self._pools = set(pools)
            self._calls.put(self._follow_pools, sorted(new), sorted(gone))

    # What talks to the broker comes last: it may raise, and the next connection does the rest.

    def _follow_pools(self, new: Sequence[str], gone: Sequence[str]) -> None:
        log.info("worker.pools", new=new, gone=gone)
        names = [
            [celery_queue(pool, queue) for pool in pools for queue in self._options.queues] for pools in (new, gone)
        ]
        self._celery.consumer.follow([declared_queue(self._app.conf.broker_url, name) for name in names[0]], names[1])

    def _mind_door(self, closed_for: str | None) -> None:
        """Take nothing new for a reason, or take work when there is none; what runs goes on in either case."""
        if self._hand_off.is_draining:  # this door does not open again
            return
        log.info("worker.closed" if closed_for else "worker.opened", reason=closed_for)
        self._hand_off.set_closed(closed=closed_for is not None)
        self._callbacks.set_closed(closed=closed_for is not None or not self._options.runs_callbacks)
        self._celery.consumer.set_closed(closed=closed_for is not None)

    def _kill_orphans(self) -> None:
        self._celery.pool.kill_orphans()

    def _set_full(self, full: bool) -> None:
        if self._celery.consumer is not None:
            self._celery.consumer.set_full(full=full)

    def _drain(self) -> None:
        self._callbacks.set_closed(closed=True)
        if self._celery.consumer is not None:
            self._calls.put(partial(self._celery.consumer.set_closed, closed=True))
        self._hand_off.drain()

    def _shut_down(self) -> None:
        """End Celery's event loop at once; setting its flag would wait for the loop's next turn."""
        self._celery.consumer.flush_events()
        raise WorkerShutdown(0)


def _registration(settings: Settings, options: WorkerOptions) -> Registration:
    return Registration(
        "worker",
        options.name,
        settings.worker.lease_s,
        queues=options.queues,
        pools=options.pools,
        slots=options.concurrency,
        runs_callbacks=options.runs_callbacks,
    )


class _Controller(WorkController):  # type: ignore[misc]  # celery has no types
    """Celery's worker, with our hand-off in place of its own execution of tasks."""

    def __init__(self, *args: Any, calls: LoopCalls, receive: Callable[[Request], None], **kwargs: Any) -> None:
        self.calls = calls
        self._receive = receive
        super().__init__(*args, **kwargs)

    def _process_task(self, req: Request) -> None:
        self._receive(req)


def _make_controller(app: Celery, settings: Settings, options: WorkerOptions, **ours: Any) -> _Controller:
    signals.setup_logging.connect(_keep_logging, weak=False)
    signals.worker_process_init.connect(_enter_child, weak=False)
    app.set_current()
    app.finalize()
    return _Controller(
        app,
        hostname=celery_worker(options.name, socket.gethostname()),
        concurrency=options.concurrency,
        autoscale=None if options.least_children is None else (options.concurrency, options.least_children),
        max_tasks_per_child=settings.worker.max_tasks_per_child,
        max_memory_per_child=settings.worker.max_memory_per_child_mb * 1024,
        without_mingle=True,
        without_gossip=True,
        **ours,
    )


def _keep_logging(**_kwargs: Any) -> None:
    """Keep Celery from setting up logging: a receiver of this signal is all it takes."""


def _enter_child(**_kwargs: Any) -> None:
    os.setsid()  # a Ctrl-C, or a signal to the main process's group, is for the main process: it decides who ends
    stop_with_parent()
    forget_parent()
    take_in_orphans()


def _check_broker(app: Celery) -> None:
    """Fail early, with a clear message, when the broker cannot be reached at the start."""
    with app.connection_for_read() as connection:
        try:
            connection.connect()
            connection.default_channel  # noqa: B018  Redis connects with its first command
        except (KombuError, OSError, *connection.connection_errors, *connection.channel_errors) as error:
            raise unavailable(app.conf.broker_url, error) from error
