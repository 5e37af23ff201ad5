"""A whole platform while everything breaks at random: processes, children, networks, the broker, the database.

`make chaos` does it for longer. The seed and each act are printed; the tasks' own ledger is the judge.
"""

import os
import random
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from pydantic import SecretStr
from sqlalchemy import make_url

from tests import law, limits
from tests.chaos.saboteur import Saboteur, Target
from tests.platform import Platform
from tests.proxy import Proxy
from turnout.cli.local.servers import EmbeddedServers
from turnout.config.settings import Settings
from turnout.executor.publisher import CeleryBroker
from turnout.metadata.changes.cancel import cancel_runs
from turnout.metadata.changes.clear import clear
from turnout.metadata.changes.mark import mark_tasks
from turnout.metadata.changes.selection import RunSelection, TaskSelection
from turnout.metadata.engine import open_engine, transact
from turnout.metadata.errors import ConflictError
from turnout.metadata.migrate import migrate
from turnout.metadata.states import TaskState

Eventually = Callable[..., object]
#: `make chaos` has more of both.
ACTS = int(os.environ.get("TURNOUT_TEST_CHAOS_ACTS", "15"))
RUNS = int(os.environ.get("TURNOUT_TEST_CHAOS_RUNS", "4"))
SEED = int(os.environ.get("TURNOUT_TEST_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
TASKS = 39
PARALLELISM = 6  # of the eight slots of the workers
SIZES = {"p0": 2, "p1": 3}
#: Attempts are lost more often than a task would be forgiven by default.
VARIABLES = {
    "TURNOUT_SCHEDULER__MAX_INFRA_RETRIES": "1000",
    "TURNOUT_SCHEDULER__PARALLELISM": str(PARALLELISM),
    "TURNOUT_SCHEDULER__SWEEP_INTERVAL_S": "5",
}
SCHEDULERS = {"scheduler-1": (), "scheduler-2": ()}
WORKERS = {
    "worker-1": ("-q", "default,io,gpu", "-c", "3"),
    "worker-2": ("-q", "default,io", "-c", "3"),
    "worker-3": ("-q", "gpu", "-p", "default_pool,p0,p1", "-c", "2"),
}
#: How long it may take until all that was broken is made good.
PATIENCE_S = 180
_ALIVE = "SELECT count(*) FROM process WHERE state = 'alive' AND lease_expires_at > clock_timestamp()"
_UNFINISHED_RUNS = "SELECT FROM dag_run WHERE state IN ('queued', 'running')"
_UNFINISHED_TASKS = """
    SELECT id, dag_run_id, task_id, state, pool, queue, try_number, attempt_id, scheduler_id, worker_id, queued_at,
           started_at, cause, error
    FROM task_instance WHERE state NOT IN ('none', 'success') ORDER BY id
"""
#: What a task does in its first attempt, and in all others.
SCRIPTS = (
    *([["succeed"]] * 6),
    ["succeed:some-value"],
    ["sleep:0.3"],
    ["fail", "succeed"],
    ["signal:SIGKILL", "succeed"],
    ["os_exit:3", "succeed"],
    ["return_bytes:20000"],
)


@pytest.fixture
def own_servers(tmp_path: Path) -> Iterator[EmbeddedServers]:
    """A PostgreSQL and a Valkey that may be broken; durable, since what is committed must outlive a kill."""
    with EmbeddedServers(tmp_path / "own") as own:
        yield own


@pytest.fixture
def platform(own_servers: EmbeddedServers, tmp_path: Path) -> Iterator[Platform]:
    database_url, broker_url = own_servers.database_url, own_servers.broker_url
    settings = Settings(home=tmp_path, database_url=SecretStr(database_url), broker_url=SecretStr(broker_url))
    engine = open_engine(database_url, name="test", connections=5)
    migrate(engine)
    transact(engine, law.enforce)
    platform = Platform(engine, settings, tmp_path)
    yield platform
    platform.stop_all()
    engine.dispose()


@pytest.fixture
def targets(platform: Platform, own_servers: EmbeddedServers) -> Iterator[list[Target]]:
    """The processes, not yet started, each with ways of its own to the servers."""
    url = make_url(own_servers.database_url)
    postgres = Path(str(url.query["host"])) / f".s.PGSQL.{url.query.get('port') or url.port or 5432}"
    valkey = Path(own_servers.broker_url.removeprefix("redis+socket://"))
    found = []
    with ExitStack() as ways:
        for name, arguments in (SCHEDULERS | WORKERS).items():
            to_database, to_broker = ways.enter_context(Proxy(postgres)), ways.enter_context(Proxy(valkey))
            own = url.set(host="127.0.0.1", port=to_database.port, query={})
            variables = VARIABLES | {
                "TURNOUT_DATABASE_URL": own.render_as_string(hide_password=False),
                "TURNOUT_BROKER_URL": f"redis://127.0.0.1:{to_broker.port}/0",
            }
            kind = name.partition("-")[0]
            start = partial(_start, platform, kind, name, arguments, variables)
            found.append(Target(name, start, to_database, to_broker))
        yield found


def _start(platform: Platform, kind: str, name: str, arguments: tuple[str, ...], variables: dict[str, str]) -> None:
    platform.start(kind, name, *arguments, **variables)


@pytest.mark.timeout(300 + 20 * ACTS)
def test_whatever_breaks_every_run_ends_and_each_attempt_starts_at_most_once(
    platform: Platform, targets: list[Target], own_servers: EmbeddedServers, eventually: Eventually
) -> None:
    print(f"TURNOUT_TEST_CHAOS_SEED={SEED}, logs in {platform.folder}")  # noqa: T201
    with platform.engine.begin() as connection:
        limits.watch(connection, PARALLELISM)
        connection.exec_driver_sql("ALTER TABLE limit_seen SET LOGGED")  # the database will be killed
    platform.declare("rough.py", **SIZES)
    for target in targets:
        target.start()
    eventually(lambda: platform.scalar(_ALIVE) == len(targets))
    dice = random.Random(SEED)  # noqa: S311  the same script each time
    runs = [platform.trigger("rough", _script(dice)) for _ in range(RUNS)]
    persons = Persons(platform)
    database, broker = own_servers.running
    saboteur = Saboteur(platform, targets, database, broker, persons.acts, SEED)

    saboteur.work(ACTS)
    try:
        eventually(lambda: not platform.rows(_UNFINISHED_RUNS), timeout_s=PATIENCE_S)
        _assert_all_ran(platform, runs, persons.marked)
        _assert_nothing_is_left_in_the_tables(platform, eventually)
    except AssertionError:
        _tell_what_is_stuck(platform)
        raise
    _assert_nothing_is_left_running(platform, eventually)
    assert len(saboteur.done) == min(ACTS, saboteur.kinds)


def _script(dice: random.Random) -> dict[str, list[str]]:
    names = [f"t{layer}_{number}" for layer in range(3) for number in range(12)]
    hanging = {f"t{layer}_7": ["hang", "succeed"] for layer in range(3)}  # it has an execution_timeout
    return {name: dice.choice(SCRIPTS) for name in names} | hanging


def _tell_what_is_stuck(platform: Platform) -> None:
    for table in (_UNFINISHED_TASKS, "SELECT id, name, state, heartbeat_at, lease_expires_at, closed_for FROM process"):
        for row in platform.rows(table):
            print(row)  # noqa: T201


class Persons:
    """What people do while everything breaks; all runs can still succeed."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self.marked: set[tuple[str, str]] = set()
        self.acts: dict[str, Callable[[random.Random], None]] = {
            "clear": self.clear,
            "mark": self.mark,
            "cancel and clear": self.cancel_and_clear,
        }

    def clear(self, dice: random.Random) -> None:
        """Clear a task that has succeeded, with all that depends on it."""
        if chosen := self._choose(dice, "success"):
            asked = TaskSelection(RunSelection("rough", chosen[0]), (chosen[1],), downstream=True)
            transact(self._platform.engine, lambda connection: clear(connection, asked, actor="ada"))

    def mark(self, dice: random.Random) -> None:
        """Mark a task success that waits or runs."""
        if chosen := self._choose(dice, "running", "queued", "scheduled", "up_for_retry"):
            asked = TaskSelection(RunSelection("rough", chosen[0]), (chosen[1],))
            transact(self._platform.engine, lambda c: mark_tasks(c, asked, TaskState.SUCCESS, actor="ada"))
            self.marked.add(chosen)

    def cancel_and_clear(self, dice: random.Random) -> None:
        """Cancel a run that has not ended, and let it run again as a whole."""
        runs = self._platform.rows("SELECT run_id FROM dag_run WHERE state IN ('queued', 'running') ORDER BY id")
        if runs:
            run = RunSelection("rough", dice.choice(runs)["run_id"])
            with suppress(ConflictError):  # it has just ended
                transact(self._platform.engine, lambda connection: cancel_runs(connection, run, actor="ada"))
            transact(self._platform.engine, lambda c: clear(c, TaskSelection(run), actor="ada"))
            self.marked = {(run_id, task_id) for run_id, task_id in self.marked if run_id != run.run_id}

    def _choose(self, dice: random.Random, *states: str) -> tuple[str, str] | None:
        found = self._platform.rows(
            """
            SELECT r.run_id, t.task_id FROM task_instance t JOIN dag_run r ON r.id = t.dag_run_id
            WHERE t.state = ANY(:states) ORDER BY t.id
            """,
            states=list(states),
        )
        return tuple(dice.choice(found).values()) if found else None  # type: ignore[return-value]


def _assert_all_ran(platform: Platform, runs: list[str], marked: set[tuple[str, str]]) -> None:
    assert {run: platform.run_state(run) for run in runs} == dict.fromkeys(runs, "success")
    assert platform.scalar("SELECT count(*) FROM task_instance WHERE state = 'success'") == RUNS * (TASKS + 3)
    started = Counter(entry["attempt_id"] for entry in platform.ledger("start"))
    assert [attempt for attempt, starts in started.items() if starts > 1] == [], "an attempt was started twice"
    known = platform.rows(
        "SELECT attempt_id FROM task_instance WHERE attempt_id IS NOT NULL UNION SELECT attempt_id FROM task_attempt"
    )
    assert started.keys() - {str(row["attempt_id"]) for row in known} == set(), "nobody knows of an attempt that ran"
    ended = {(entry["run_id"], entry["task_id"]) for entry in platform.ledger("end")}
    expected = {(run, f"t{layer}_{number}") for run in runs for layer in range(3) for number in range(12)}
    assert expected - ended <= marked, "a task succeeded that never came to its end"
    reached = {row["name"] for row in platform.rows("SELECT name FROM limit_seen WHERE used = most")}
    assert reached >= {"parallelism", "runs of rough", "pool p0"}, "a limit that nobody reaches is not tested"
    for name in SCHEDULERS:
        assert not [said for said in platform.said(name, "outage.began") if "limit exceeded" in str(said)]
        assert not platform.said(name, "loop.failed")


def _assert_nothing_is_left_in_the_tables(platform: Platform, eventually: Eventually) -> None:
    assert platform.rows("SELECT FROM task_instance WHERE state IN ('queued', 'running', 'scheduled')") == []
    eventually(lambda: platform.scalar("SELECT count(*) FROM wakeup") == 0)
    queue_names = [f"{pool}.{queue}" for pool in ("default_pool", "p0", "p1") for queue in ("default", "io", "gpu")]
    asking = CeleryBroker(platform.settings)
    try:  # stale messages are taken by workers, and dropped
        eventually(lambda: not any(asking.depths(queue_names).values()))
    finally:
        asking.close()


def _assert_nothing_is_left_running(platform: Platform, eventually: Eventually) -> None:
    started = {process.pid for process in platform.processes.values()}
    eventually(lambda: platform.scalar(_ALIVE) == len(started))  # the last ones that were started, too
    for name in platform.processes:
        platform.kill(name, signal.SIGTERM)
    codes = {name: process.wait(60) for name, process in platform.processes.items()}
    assert codes == dict.fromkeys(codes, 0)
    eventually(lambda: _processes_of(platform.settings.home) == [])
    left = [path.name for path in Path(tempfile.gettempdir()).glob("turnout-worker-*")]
    assert [name for name in left if int(name.split("-")[2]) in started] == []
    eventually(
        lambda: (
            platform.scalar(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name <> 'turnout test'"
            )
            == 0
        )
    )
    assert platform.rows("SELECT FROM process WHERE state = 'alive'") == []


def _processes_of(home: Path) -> list[str]:
    """List the processes that know this home by their environment: all that the platform has started, near and far."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TURNOUT_HOME") == str(home) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found
