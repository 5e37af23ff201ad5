"""A scheduler is killed, or stopped for a while, at every point between two statements of its loop.

The scenario has work for every step, so that every statement that a pass can have is there. After a kill, other
schedulers finish all of it, by what the database holds and without the sweep. After a stop that lasted until it was
declared dead, none of its late writes counts.
"""

import json
import math
import multiprocessing
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest
import redis
from sqlalchemy import text

from tests import rows, statements
from tests.chaos import victim
from tests.chaos.victim import NEVER_S, PUBLISHING, Order
from tests.conftest import Servers
from tests.control import Control, graph
from turnout.executor.publisher import CeleryBroker
from turnout.metadata import attempts, processes
from turnout.metadata.attempts import AttemptKey
from turnout.metadata.engine import open_engine, transact
from turnout.metadata.states import TaskState
from turnout.metadata.tables import metadata
from turnout.scheduler.repair import Reaper

pytestmark = pytest.mark.usefixtures("patient_reaper")

Eventually = Callable[..., object]
QUEUE = "default_pool.default"
#: The points are dealt out to so many tests, and each is a test of its own there.
HANDS = 8
#: Of so many points one, another one each time that the suite runs; `make test-faults` takes all of them.
EVERY = int(os.environ.get("TURNOUT_TEST_FAULTS_EVERY", "3"))
MOST_ROUNDS = 60
SUCCEED = ("line", "retried", "past", "lost", "unheard", "waiting", "filled", "limited", "due")
#: What the loop writes; `process` apart, since a lease is renewed by another thread.
WRITTEN = sorted(metadata.tables.keys() - {"process"})
#: Statements of which no pass is made: those of workers, of leases, of people, and of explanations.
NOT_OF_A_PASS = {
    "attempts._CLAIM",
    "attempts._FINISH",
    "attempts._RUNNING_ON",
    "processes.end 0",
    "processes.register 0",
    "processes.renew 0",
    "processes.report_loop 0",
    "queueing._CANDIDATES_IF",
    "queueing._POOLS",
    "timers._NEXT_DUE",
    "wakeups.notify_schedulers 0",
}

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["__main__", "tests.chaos.victim"])


def prepare(control: Control) -> None:
    """Make work for every step."""
    control.declare(
        graph("line", {"a": [], "b": ["a"]}, empty=["b"]),
        graph("retried", {"a": [], "b": ["a"]}, task={"retries": 1}),
        graph("past", {"a": []}, task={"depends_on_past": True}),
        graph("fast", {"a": [], "b": []}, fail_fast=True, max_consecutive_failed_dag_runs=1),
        graph("late", {"a": []}, dagrun_timeout=timedelta(hours=1)),
        graph("lost", {"a": [], "b": []}),
        graph("unheard", {"a": []}),
        graph("waiting", {"a": [], "b": ["a"]}),
        graph("filled", {"a": []}),
        graph("limited", {"a": []}, task={"pool": {"default_pool": 1, "other": 1}, "max_active_tis_per_dag": 1}),
        graph("due", {"a": []}, schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False),
    )
    control.sql("INSERT INTO pool (name, slots) VALUES ('other', 1)")
    control.sql("UPDATE pool SET rate_starts = 900, rate_period_s = 60 WHERE name = 'default_pool'")
    worker, dead_worker, dead_scheduler = control.worker(), control.worker(), control.do(rows.insert_scheduler)
    _begin(control, worker)
    _lose(control, dead_worker, dead_scheduler)
    control.insert_run("waiting")
    control.insert_run("filled", run_type="backfill")
    control.insert_run("limited")
    control.sql("""
        INSERT INTO wakeup (dag_run_id, task_id)
        SELECT id, CASE WHEN run_id = 'run' THEN 'a' END FROM dag_run
        WHERE dag_id IN ('line', 'retried', 'past', 'fast')
    """)
    control.sql("UPDATE task_instance SET next_try_at = now() WHERE state = 'up_for_retry'")
    control.sql("UPDATE dag_run SET timeout_at = now() WHERE dag_id = 'late'")
    control.sql("UPDATE dag SET next_run_after = now() WHERE dag_id = 'due'")


def _begin(control: Control, worker: int) -> None:
    """Let some runs get under way: one task succeeds, one fails, one is to be retried."""
    for dag_id in ("line", "retried", "late"):
        control.insert_run(dag_id)
    for dag_id, run_id, day in (("past", "run", 1), ("past", "next", 2), ("fast", "run", 1)):
        control.insert_run(dag_id, run_id, logical_date=datetime(2026, 1, day, tzinfo=UTC))
    control.start()
    control.decide()
    by_dag = {(message.dag_id, message.task_id): message for message in control.queue().messages}
    control.work([by_dag["line", "a"], by_dag["past", "a"]], worker)
    control.work([by_dag["fast", "a"]], worker, a=TaskState.FAILED)
    (retried,) = control.claim([by_dag["retried", "a"]], worker)
    control.finish([retried.key], TaskState.UP_FOR_RETRY, retry_delay_s=NEVER_S)


def _lose(control: Control, dead_worker: int, dead_scheduler: int) -> None:
    """Let a worker and a scheduler die, and a message get lost."""
    control.insert_run("lost")
    control.start()
    control.sql("DELETE FROM wakeup WHERE dag_run_id IN (SELECT id FROM dag_run WHERE dag_id <> 'lost')")
    control.decide()
    assert len(control.claim(control.queue(1).messages, dead_worker)) == 1
    assert len(control.queue(1, dead_scheduler).messages) == 1
    control.insert_run("unheard")
    control.start()
    control.decide()
    assert len(control.queue().messages) == 1
    control.sql("UPDATE task_instance SET queued_at = now() - interval '1 h' WHERE dag_id = 'unheard'")
    control.kill(dead_worker)
    control.kill(dead_scheduler)


class Scene:
    """The scenario, set once more for each point."""

    def __init__(self, database_url: str, broker_url: str, client: "redis.Redis", folder: Path) -> None:
        self._database_url = database_url
        self._broker_url = broker_url
        self._client = client
        self._folder = folder
        self._number = 0
        self._engine = open_engine(database_url, name="test")
        prepare(Control(self._engine))
        with self._engine.begin() as connection:
            connection.execute(text("CREATE SCHEMA scenario"))
            for table in metadata.tables:
                connection.execute(text(f"CREATE TABLE scenario.{table} AS TABLE {table}"))

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def play(
        self, point: str | None = None, number: signal.Signals = signal.SIGKILL
    ) -> Iterator[tuple[Order, "Successors"]]:
        """Set the scene for a point, with those who come after the victim."""
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir()
        self._reset()
        order = Order(folder, self._database_url, self._broker_url, point, number)
        others = Successors(order, self._client)
        try:
            yield order, others
        finally:
            others.close()

    def _reset(self) -> None:
        self._client.flushdb()
        with self._engine.begin() as connection:
            connection.execute(text("SET LOCAL session_replication_role = replica"))
            connection.execute(text(f"TRUNCATE {', '.join(metadata.tables)}"))
            for table in metadata.tables:
                connection.execute(
                    text(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM scenario.{table}")  # noqa: S608
                )


@pytest.fixture(scope="module")
def client(servers: Servers) -> Iterator["redis.Redis"]:
    client = redis.Redis(unix_socket_path=str(servers.broker_socket), db=0, decode_responses=True)
    yield client
    client.flushdb()
    client.close()


@pytest.fixture(scope="module")
def scene(
    servers: Servers, template: str, client: "redis.Redis", tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    servers.execute(f"CREATE DATABASE scene TEMPLATE {template}")
    broker_url = f"redis+socket://{servers.broker_socket}?virtual_host=0"
    scene = Scene(servers.database("scene"), broker_url, client, tmp_path_factory.mktemp("points"))
    yield scene
    scene.close()
    servers.execute("DROP DATABASE scene WITH (FORCE)")


@pytest.fixture(scope="module")
def rehearsal(scene: Scene) -> dict[str, list[str]]:
    """What a pass that is let through comes by: the names of all points in their order, and its statements."""
    with scene.play() as (order, _):
        assert go(order) == 0
        found: dict[str, list[str]] = json.loads((order.folder / "rehearsal").read_text())
    return found


@pytest.fixture(scope="module")
def points(rehearsal: dict[str, list[str]]) -> list[str]:
    return rehearsal["points"]


def start(order: Order) -> Any:
    process = _context.Process(target=victim.run, args=(order,))
    process.start()
    return process


def go(order: Order) -> int | None:
    process = start(order)
    process.join()
    return process.exitcode  # type: ignore[no-any-return]


class Successors:
    """The other schedulers, and a worker that takes every message from the broker."""

    def __init__(self, order: Order, client: "redis.Redis") -> None:
        self._engine = open_engine(order.database_url, name="test", connections=2)
        self._client = client
        self._broker = CeleryBroker(order.settings)
        self.control = Control(self._engine)
        self._reaper = Reaper(self._engine, self._broker, _Old(), order.settings)  # type: ignore[arg-type]
        self.claimed: Counter[UUID] = Counter()

    def declare_dead(self, name: str = "victim") -> bool:
        """Let the lease of the victim be over; say whether it can be declared dead."""
        for process_id in self.control.sql("SELECT id FROM process WHERE name = :name AND state = 'alive'", name=name):
            self.control.kill(process_id)
        dead = self.control.do(lambda c: processes.declare_dead(c, ["scheduler"]))
        return name in {found for _, _, found in dead}

    def finish_all(self) -> None:
        """Bring every run to its end."""
        worker = self.control.worker()
        for _ in range(MOST_ROUNDS):
            self.control.create()
            self.control.start()
            self.control.decide()
            self._broker.publish(self.control.queue().messages)
            self._reaper.run_once()
            self._work(worker)
            if set(self.control.sql("SELECT state FROM dag_run")) <= {"success", "failed"}:
                return
        pytest.fail(f"it got stuck: {self.snapshot()}")

    def _work(self, worker: int) -> None:
        while message := self._client.rpop(QUEUE):
            headers = json.loads(str(message))["headers"]
            key = AttemptKey(headers["turnout_ti"], UUID(headers["id"]))
            claimed = self.control.do(lambda c, key=key: attempts.claim_queued(c, worker, [key]))
            self.claimed.update(attempt.attempt_id for attempt in claimed)
            self.control.finish([attempt.key for attempt in claimed])

    def snapshot(self) -> dict[str, list[Any]]:
        """Read all that a loop writes."""
        return {table: self.control.sql(f"SELECT t::text FROM {table} t ORDER BY t::text") for table in WRITTEN}  # noqa: S608

    def close(self) -> None:
        self._broker.close()
        self._engine.dispose()


class _Old:
    """The lease of a scheduler that has had the database for long."""

    steady_s = 2 * NEVER_S
    transact = staticmethod(transact)


def test_the_pass_has_work_for_every_statement_of_the_loop(rehearsal: dict[str, list[str]]) -> None:
    known = statements.of_the_loop()
    missing = {name for name, statement in known.items() if statement not in rehearsal["statements"]}
    assert missing == NOT_OF_A_PASS


def dealt(names: Sequence[str], hand: int) -> list[str]:
    mine = names[hand::HANDS]
    return random.sample(mine, math.ceil(len(mine) / EVERY))  # the seed is that of the whole run


@pytest.mark.parametrize("hand", range(HANDS))
def test_killed_between_two_statements_it_is_not_missed(
    hand: int, scene: Scene, points: list[str], subtests: pytest.Subtests
) -> None:
    for point in dealt([*points, *PUBLISHING], hand):
        with subtests.test(point), scene.play(point, signal.SIGKILL) as (order, others):
            assert go(order) == -signal.SIGKILL
            others.declare_dead()
            others.finish_all()
            assert_all_well(others)


def assert_all_well(others: Successors) -> None:
    control = others.control
    ended = control.sql("SELECT dag_id FROM dag_run WHERE state = 'success'")
    assert sorted(ended) == sorted([*SUCCEED, "past"])
    assert set(control.sql("SELECT dag_id FROM dag_run WHERE state = 'failed'")) == {"fast", "late"}
    assert set(others.claimed.values()) == {1}, "an attempt was started twice"
    others_than_success = control.sql("SELECT dag_id, task_id, state FROM task_instance WHERE state <> 'success'")
    assert sorted(others_than_success) == [("fast", "a", "failed"), ("fast", "b", "skipped"), ("late", "a", "skipped")]
    assert control.sql("SELECT dag_id FROM dag WHERE is_paused") == ["fast"]
    again = control.sql("SELECT dag_id, infra_failures FROM task_instance WHERE try_number > 1 ORDER BY dag_id")
    assert again == [("lost", 1), ("retried", 0)], "a task ran again though no worker was lost"


@pytest.mark.parametrize("hand", range(HANDS))
def test_stopped_until_it_is_declared_dead_it_writes_nothing_more(
    hand: int, scene: Scene, points: list[str], eventually: Eventually, subtests: pytest.Subtests
) -> None:
    for point in dealt(points[:-1], hand):
        with subtests.test(point), scene.play(point, signal.SIGSTOP) as (order, others):
            process = start(order)
            eventually(lambda process=process: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
            is_dead = others.declare_dead()
            before = others.snapshot()
            os.kill(process.pid, signal.SIGCONT)
            process.join()
            if is_dead:
                assert others.snapshot() == before
            else:
                assert point.endswith("before the commit"), "only the fence keeps a process from being declared dead"
            others.finish_all()
            assert_all_well(others)
