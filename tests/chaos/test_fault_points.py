"""A scheduler is killed, or stopped for a while, at every point between two statements of its loop.

The scenario has work for every step, so that every statement that a pass can have is there. After a kill, other
schedulers finish all of it, by what the database holds and without the sweep. After a stop that lasted until it was
declared dead, none of its late writes counts.
"""

import json
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest
import redis
from sqlalchemy import text

from tests import rows
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

Eventually = Callable[..., object]
QUEUE = "default_pool.default"
#: The points are dealt out to so many tests, and each is a test of its own there.
HANDS = 8
MOST_ROUNDS = 60
#: What the loop writes; `process` apart, since a lease is renewed by another thread.
WRITTEN = sorted(metadata.tables.keys() - {"process"})
STATES = "SELECT state, count(*) FROM dag_run GROUP BY state"

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["__main__", "tests.chaos.victim"])


def prepare(control: Control) -> None:
    """Make work for every step."""
    control.declare(
        graph("line", {"a": [], "b": ["a"]}, empty=["b"]),
        graph("retried", {"a": [], "b": ["a"]}, task={"retries": 1}),
        graph("lost", {"a": [], "b": []}),
        graph("unheard", {"a": []}),
        graph("waiting", {"a": [], "b": ["a"]}),
        graph("due", {"a": []}, schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False),
        graph("past", {"a": []}, task={"depends_on_past": True}),
        graph("fast", {"a": [], "b": []}, fail_fast=True),
        graph("late", {"a": []}, dagrun_timeout=timedelta(hours=1), max_consecutive_failed_dag_runs=1),
    )
    worker, dead_worker, dead_scheduler = control.worker(), control.worker(), control.do(rows.insert_scheduler)
    for dag_id in ("line", "retried", "fast"):
        control.insert_run(dag_id)
    for dag_id, day in (("past", 1), ("past", 2), ("late", 1)):
        control.insert_run(dag_id, f"day{day}", logical_date=f"2026-01-{day:02}")
    control.start()
    control.decide()
    messages = control.queue().messages
    control.work([message for message in messages if message.dag_id in ("line", "past")], worker)
    control.work([m for m in messages if (m.dag_id, m.task_id) == ("fast", "a")], worker, a=TaskState.FAILED)
    (retried,) = control.claim([message for message in messages if message.dag_id == "retried"], worker)
    control.finish([retried.key], TaskState.UP_FOR_RETRY, retry_delay_s=NEVER_S)
    control.insert_run("lost")
    control.start()
    control.sql("DELETE FROM wakeup WHERE dag_run_id IN (SELECT id FROM dag_run WHERE dag_id <> 'lost')")
    control.decide()
    control.claim(control.queue(1).messages, dead_worker)
    assert len(control.queue(1, dead_scheduler).messages) == 1
    control.insert_run("unheard")
    control.start()
    control.decide()
    assert len(control.queue().messages) >= 1
    control.sql("UPDATE task_instance SET queued_at = now() - interval '1 h' WHERE dag_id = 'unheard'")
    control.kill(dead_worker)
    control.kill(dead_scheduler)
    control.insert_run("waiting")
    control.sql("""
        INSERT INTO wakeup (dag_run_id, task_id)
        SELECT id, 'a' FROM dag_run WHERE dag_id IN ('line', 'retried', 'past', 'fast')
    """)
    control.sql("UPDATE dag_run SET timeout_at = now() WHERE dag_id = 'late'")
    control.sql("UPDATE task_instance SET next_try_at = now() WHERE state = 'up_for_retry'")
    control.sql("UPDATE dag SET next_run_after = now() WHERE dag_id = 'due'")


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
def points(scene: Scene) -> list[str]:
    """The names of all points, in the order in which a pass that is let through reaches them."""
    with scene.play() as (order, _):
        assert go(order) == 0
        names: list[str] = json.loads((order.folder / "points").read_text())
    return names


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
            if {state for state, _ in self.control.sql(STATES)} <= {"success", "failed"}:
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


def test_the_pass_has_work_for_every_step(points: list[str]) -> None:
    steps = Counter(name.split()[1].rstrip(":") for name in points if "before" not in name and "after" not in name)
    assert set(steps) == set(victim._STEPS)
    assert len(points) > 50


@pytest.mark.parametrize("hand", range(HANDS))
def test_killed_between_two_statements_it_is_not_missed(
    hand: int, scene: Scene, points: list[str], subtests: pytest.Subtests
) -> None:
    for point in [*points, *PUBLISHING][hand::HANDS]:
        with subtests.test(point), scene.play(point, signal.SIGKILL) as (order, others):
            assert go(order) == -signal.SIGKILL
            others.declare_dead()
            others.finish_all()
            assert_all_well(others)


def assert_all_well(others: Successors) -> None:
    control = others.control
    assert sorted(control.sql(STATES)) == [("failed", 2), ("success", 8)]
    assert set(others.claimed.values()) == {1}, "an attempt was started twice"
    not_well = control.sql("SELECT DISTINCT dag_id, task_id, state FROM task_instance WHERE state <> 'success'")
    assert sorted(not_well) == [("fast", "a", "failed"), ("fast", "b", "skipped"), ("late", "a", "skipped")]
    assert control.sql("SELECT dag_id FROM dag WHERE is_paused") == ["late"]
    again = control.sql("SELECT dag_id, infra_failures FROM task_instance WHERE try_number > 1 ORDER BY dag_id")
    assert again == [("lost", 1), ("retried", 0)], "a task ran again though no worker was lost"


@pytest.mark.parametrize("hand", range(HANDS))
def test_stopped_until_it_is_declared_dead_it_writes_nothing_more(
    hand: int, scene: Scene, points: list[str], eventually: Eventually, subtests: pytest.Subtests
) -> None:
    for point in points[:-1][hand::HANDS]:
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
