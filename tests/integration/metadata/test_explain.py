"""The statements of the hot path cost what they touch, not what the tables hold.

50,000 finished task instances lie in the tables (`make test-big`: a million), and a few hundred that wait or run. Each
statement is run for real with `EXPLAIN (ANALYZE)` put before it, on the plan that PostgreSQL chooses by itself: no
table that grows is read from end to end, the index meant for it is used, and few rows are touched.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, Engine, event, text

from tests import statements
from tests.conftest import Servers
from tests.control import graph
from turnout.metadata import (
    attempts,
    callbacks,
    decisions,
    orphans,
    pausing,
    pools,
    processes,
    queueing,
    rates,
    runs,
    stuck,
    timers,
    wakeups,
    xcom,
)
from turnout.metadata.attempts import AttemptKey, FinishedAttempt
from turnout.metadata.changes.cancel import cancel_runs
from turnout.metadata.changes.clear import clear
from turnout.metadata.changes.delete import delete_runs
from turnout.metadata.changes.mark import mark_tasks
from turnout.metadata.changes.selection import RunSelection, TaskSelection
from turnout.metadata.engine import open_engine
from turnout.metadata.processes import LoopReport, Registration
from turnout.metadata.queueing import Excluded, Lifted, LockedPool
from turnout.metadata.runs import NewRun, NextRun
from turnout.metadata.states import Cause, Outcome, RunState, TaskState
from turnout.metadata.versions import VersionCache
from turnout.scheduler.start_runs import start_runs
from turnout.tasks.serialization import content_hash, serialize

TASKS = 10
FINISHED_RUNS = int(os.environ.get("TURNOUT_TEST_FINISHED_TASKS", "50000")) // TASKS
ACTIVE_RUNS = 30
FIRST_RUNNING = f"r{FINISHED_RUNS + 1}"
#: The tables that grow with every run.
GROWING = {"task_instance", "dag_run", "task_attempt", "xcom", "callback"}
#: No statement here has business with more rows than this, all nodes of its plan taken together.
MOST_ROWS = 4000
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def big(servers: Servers, template: str) -> Iterator[Engine]:
    """A database with a long past."""
    servers.execute(f"CREATE DATABASE big TEMPLATE {template}")
    engine = open_engine(servers.database("big"), name="test")
    with engine.begin() as connection:
        fill(connection)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
    yield engine
    engine.dispose()
    servers.execute("DROP DATABASE big WITH (FORCE)")


def fill(connection: Connection) -> None:
    """Make ten DAGs, each with its share of the finished runs and three that are active."""
    content = serialize(graph("d", {f"t{number}": [f"t{number - 1}"] if number else [] for number in range(TASKS)}))
    version = connection.scalar(
        text("""
            INSERT INTO dag_version (dag_id, version_number, content_hash, content)
            VALUES ('d', 1, :hash, CAST(:content AS jsonb)) RETURNING id
        """),
        {"hash": content_hash(content), "content": json.dumps(content)},
    )
    scheduler_id = processes.register(connection, Registration("scheduler", "s", 3600))
    worker = processes.register(connection, Registration("worker", "w", 3600, queues=["default"], slots=100))
    values = {
        "version": version,
        "finished": FINISHED_RUNS,
        "runs": FINISHED_RUNS + ACTIVE_RUNS,
        "tasks": TASKS,
        "scheduler": scheduler_id,
        "worker": worker,
    }
    for statement in _FILL:
        connection.execute(text(statement), values)


_FILL = (
    """
    INSERT INTO dag (dag_id, is_paused, file_path, current_version_id, max_active_runs, next_run_after)
    SELECT 'd' || n, false, 'd.py', :version, 16, now() + (n || ' hours')::interval FROM generate_series(0, 9) n
    """,
    """
    INSERT INTO dag_run (dag_id, run_id, run_type, state, dag_version_id, logical_date, run_after)
    SELECT 'd' || n % 10, 'r' || n, 'scheduled', CASE WHEN n <= :finished THEN 'success' ELSE 'running' END, :version,
           timestamptz '2013-01-01' + (n || ' hours')::interval, now()
    FROM generate_series(1, :runs) n ORDER BY n
    """,
    """
    INSERT INTO task_instance (dag_run_id, dag_id, task_id, state, attempt_id, try_number, pool, pool_slots, queue,
                               priority_weight, run_date, queued_at, started_at, ended_at, scheduler_id, worker_id,
                               next_try_at)
    SELECT r.id, r.dag_id, 't' || n, s.state, gen_random_uuid(), 1, 'default_pool', 1, 'default', n, r.logical_date,
           now(), now(), now(), :scheduler, :worker, now()
    FROM dag_run r, generate_series(0, :tasks - 1) n, LATERAL (
        SELECT CASE WHEN r.state = 'success' THEN 'success'
                    WHEN n < 2 THEN 'running' WHEN n < 4 THEN 'queued' WHEN n < 6 THEN 'scheduled'
                    WHEN n < 7 THEN 'up_for_retry' ELSE 'none' END AS state
    ) s
    """,
    """
    INSERT INTO task_attempt (attempt_id, task_instance_id, try_number, queue)
    SELECT gen_random_uuid(), id, 1, queue FROM task_instance
    """,
    """
    INSERT INTO xcom (dag_run_id, task_id, map_index, key, value)
    SELECT dag_run_id, task_id, -1, 'return_value', '1' FROM task_instance WHERE state = 'success'
    """,
    """
    INSERT INTO callback (dag_run_id, task_instance_id, event, subject_state, state)
    SELECT dag_run_id, id, 'success', 'success', CASE WHEN state = 'success' THEN 'success' ELSE 'waiting' END
    FROM task_instance
    """,
    "INSERT INTO wakeup (dag_run_id, task_id) SELECT id, 't3' FROM dag_run WHERE state = 'running'",
    "INSERT INTO dag_run (dag_id, run_id, run_type) SELECT 'd' || n, 'q', 'manual' FROM generate_series(0, 9) n",
    # DAGs of which thousands of runs wait, behind one that runs.
    """
    INSERT INTO dag (dag_id, is_paused, file_path, current_version_id, max_active_runs, next_run_after)
    SELECT 'crowd' || n, false, 'd.py', :version, 1, now() + interval '1 day' FROM generate_series(0, 2) n
    """,
    """
    INSERT INTO dag_run (dag_id, run_id, run_type, state, dag_version_id)
    SELECT 'crowd' || n, 'first', 'manual', 'running', :version FROM generate_series(0, 2) n
    """,
    """
    INSERT INTO dag_run (dag_id, run_id, run_type)
    SELECT 'crowd' || mod(n, 3), t || n, t FROM generate_series(1, 6000) n, unnest('{manual,backfill}'::text[]) t
    """,
    "INSERT INTO pool (name, slots) SELECT 'p' || n, 10 FROM generate_series(1, 5) n",
)


class Plan:
    """What a statement did, node by node."""

    def __init__(self, explained: Any) -> None:
        self.nodes = list(_walk(explained["Plan"]))

    @property
    def read_from_end_to_end(self) -> set[str]:
        """The tables that a sequential scan has read."""
        return {
            node["Relation Name"] for node in self.nodes if node["Node Type"] == "Seq Scan" and node["Actual Loops"]
        }

    @property
    def indexes(self) -> set[str]:
        """The indexes that were used."""
        return {node["Index Name"] for node in self.nodes if "Index Name" in node}

    @property
    def rows(self) -> float:
        """The rows that were read from tables and indexes, those thrown away included."""
        scans = [node for node in self.nodes if "Scan" in node["Node Type"]]
        return float(
            sum(
                node["Actual Loops"]
                * (
                    node["Actual Rows"]
                    + node.get("Rows Removed by Filter", 0)
                    + node.get("Rows Removed by Index Recheck", 0)
                )
                for node in scans
            )
        )


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _walk(child)


def explain(engine: Engine, work: Callable[[Connection], object]) -> list[Plan]:
    """Run `work`, and roll it back; return the plans of its statements."""
    plans: list[Plan] = []

    def note(c: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        if statement.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK")):
            return
        with c.connection.driver_connection.cursor() as cursor:
            cursor.execute("SAVEPOINT explained")
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
            plans.append(Plan(cursor.fetchone()[0][0]))
            cursor.execute("ROLLBACK TO explained")

    with engine.connect() as connection:
        event.listen(engine, "before_cursor_execute", note)
        try:
            work(connection)
        finally:
            event.remove(engine, "before_cursor_execute", note)
    return plans


@dataclass(frozen=True)
class Big:
    """What is active in the big database."""

    keys: dict[str, list[AttemptKey]]  # by state
    runs: list[int]
    scheduler_id: int
    worker_id: int

    def ids(self, state: str) -> list[int]:
        """The task instances of a state."""
        return [key.task_instance_id for key in self.keys[state]]


@pytest.fixture(scope="module")
def facts(big: Engine) -> Big:
    keys: dict[str, list[AttemptKey]] = defaultdict(list)
    with big.begin() as connection:
        for row in connection.execute(text("SELECT state, id, attempt_id FROM task_instance WHERE state <> 'success'")):
            keys[row.state].append(AttemptKey(row.id, row.attempt_id))
        runs_ = list(connection.scalars(text("SELECT id FROM dag_run WHERE state = 'running'")))
        scheduler_id, worker_id = connection.scalars(text("SELECT id FROM process ORDER BY kind"))
    return Big(keys, runs_, scheduler_id, worker_id)


def finished(facts: Big) -> list[FinishedAttempt]:
    return [FinishedAttempt(key, TaskState.SUCCESS, Outcome.SUCCESS, return_value="1") for key in facts.keys["running"]]


def new_runs() -> list[NewRun]:
    return [NewRun(f"d{n}", f"new{n}", "scheduled", NOW, NOW, NOW, NOW) for n in range(10)]


def prepare(connection: Connection, statement: str, *values: str) -> None:
    """Run a statement that is not to be explained."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(statement, values)


def run_callback(connection: Connection, facts: Big) -> None:
    claimed = callbacks.claim_next(connection, facts.worker_id, 3)
    assert claimed is not None
    assert callbacks.finish(connection, facts.worker_id, claimed, problem=None, log="")


def lock_partners(connection: Connection, _: Big) -> None:
    prepare(connection, """UPDATE task_instance SET extra_pools = '{"p1": 1}' WHERE state = %s""", "scheduled")
    queueing.lock_pools_with_work(connection)


def lose(connection: Connection, _: Big) -> None:
    prepare(connection, "UPDATE process SET state = 'dead' WHERE kind = %s", "worker")
    attempts.lose_by_dead_workers(connection, 3)


def give_back_unpublished(connection: Connection, _: Big) -> None:
    prepare(connection, "UPDATE process SET state = 'dead' WHERE kind = %s", "scheduler")
    attempts.give_back_by_dead_schedulers(connection)


def create(connection: Connection, _: Big) -> None:
    prepare(connection, "UPDATE dag SET next_run_after = now()")
    runs.lock_due_dags(connection, 500)
    runs.plan_next(connection, [f"d{n}" for n in range(10)])
    runs.create_runs(connection, new_runs())
    runs.set_next_runs(connection, [NextRun(f"d{n}", NOW, NOW, NOW, NOW) for n in range(10)])


def start(connection: Connection, _: Big) -> None:
    prepare(connection, "INSERT INTO dag_run (dag_id, run_id, run_type) VALUES ('d0', 'b', %s)", "backfill")
    start_runs(connection, 500)


def lock_timed_out(connection: Connection, _: Big) -> None:
    prepare(connection, "UPDATE dag_run SET timeout_at = now() WHERE state = %s", "running")
    decisions.lock_timed_out(connection, 500)


def pause_failing(connection: Connection, _: Big) -> None:
    pausing.pause_failing(connection, {f"d{number}": 3 for number in range(10)})


def read_candidates(connection: Connection, _: Big) -> None:
    excluded = Excluded(runs=[1], tasks=[("d1", "t4")], run_tasks=[(1, "t5")], ids=[1])
    queueing.read_candidates(connection, [("default_pool", "default", 20), ("p1", "default", 10)], excluded)


def read_candidates_if_lifted(connection: Connection, _: Big) -> None:
    lifted = Lifted("d1", ["default_pool"])
    queueing.read_candidates(connection, [("default_pool", "default", 20)], Excluded(), lifted)


def read_rates(connection: Connection, _: Big) -> None:
    prepare(connection, "UPDATE pool SET rate_starts = 3, rate_period_s = 60")
    assert rates.read_rate_room(connection, [LockedPool("p1", 1, has_rate=True)])["p1"].starts == 3


def pull_nothing(connection: Connection, facts: Big) -> None:
    with pytest.raises(LookupError):
        xcom.pull(connection, facts.runs[0], "t", -1, "return_value")


def declare_dead(connection: Connection, _: Big) -> None:
    prepare(connection, "UPDATE process SET lease_expires_at = now() - interval '1 hour' WHERE kind = %s", "worker")
    assert len(processes.declare_dead(connection, ["worker", "scheduler"])) == 1


def fence(connection: Connection, facts: Big) -> None:
    prepare(connection, "UPDATE pool SET slots = 1")
    processes.fence(connection, facts.scheduler_id)


def remove_orphans(connection: Connection, _: Big) -> None:
    prepare(connection, "UPDATE task_instance SET task_id = 'gone' WHERE state = 'none' AND task_id = %s", "t9")
    orphans.remove_orphans(connection)


def discard_wakeups(connection: Connection, _: Big) -> None:
    prepare(connection, "INSERT INTO wakeup (dag_run_id) VALUES (-1)")
    assert wakeups.discard_orphans(connection) == 1


def clear_run(connection: Connection, run_id: str) -> None:
    assert clear(connection, TaskSelection(RunSelection("d1", run_id)), actor="ada").task_instances


def mark_task(connection: Connection, _: Big) -> None:
    asked = TaskSelection(RunSelection("d1", FIRST_RUNNING), ("t7",), downstream=True)
    assert mark_tasks(connection, asked, TaskState.SUCCESS, actor="ada").task_instances


def cancel_run(connection: Connection, _: Big) -> None:
    assert cancel_runs(connection, RunSelection("d1", FIRST_RUNNING), actor="ada").task_instances


def delete_run(connection: Connection, _: Big) -> None:
    assert delete_runs(connection, RunSelection("d1", "r1"), actor="ada").task_instances


Work = Callable[[Connection, Big], object]
PK, SCHEDULED, ACTIVE, UNFINISHED, DUE, RUN_TASK, RUNS = (
    "pk_task_instance",
    "ix_task_instance_scheduled",
    "ix_task_instance_active",
    "ix_task_instance_unfinished",
    "ix_task_instance_due",
    "uq_task_instance_dag_run_id_task_id_map_index",
    "ix_dag_run_active",
)
#: For each statement function, the indexes of which one serves it: which one is PostgreSQL's choice, by numbers.
STATEMENTS: dict[str, tuple[Work, set[str]]] = {
    "pull": (pull_nothing, {"pk_xcom"}),
    "claim": (lambda c, f: attempts.claim_queued(c, f.worker_id, f.keys["queued"]), {PK, ACTIVE}),
    "finish": (lambda c, f: attempts.finish_if_running(c, finished(f)), {PK, ACTIVE}),
    "give back": (lambda c, f: attempts.give_back_queued(c, f.keys["queued"], Cause.MESSAGE_LOST), {PK, ACTIVE}),
    "lose": (lose, {ACTIVE, PK}),
    "give back unpublished": (give_back_unpublished, {ACTIVE, PK}),
    "callbacks wait": (lambda c, _: callbacks.are_waiting(c), {"ix_callback_open"}),
    "run callback": (run_callback, {"ix_callback_open", "pk_callback"}),
    "running on": (lambda c, f: attempts.running_on(c, f.worker_id), {ACTIVE}),
    "lock pools": (lambda c, _: queueing.lock_pools_with_work(c), {SCHEDULED}),
    "lock partners": (lock_partners, {SCHEDULED, "ix_task_instance_partners"}),
    "count waiting": (lambda c, _: queueing.count_waiting(c), {SCHEDULED, UNFINISHED}),
    "count active": (lambda c, _: queueing.count_active(c), {ACTIVE}),
    "candidates": (read_candidates, {SCHEDULED}),
    "candidates of an explanation": (read_candidates_if_lifted, {SCHEDULED}),
    "pools of an explanation": (lambda c, _: queueing.read_pools(c), set()),
    "guard": (lambda c, _: queueing.enter_guard(c), set()),
    "lock runs of candidates": (lambda c, f: queueing.lock_runs(c, f.runs), {ACTIVE, "pk_dag_run"}),
    "lock DAGs of candidates": (lambda c, _: queueing.lock_dags(c, ["d1"]), set()),
    "active of tasks": (lambda c, _: queueing.count_active_of_tasks(c, [("d1", "t1")]), {ACTIVE}),
    "rates": (read_rates, set()),
    "note starts": (lambda c, _: rates.note_starts(c, {"p1": 1}), set()),
    "refuse oversized": (lambda c, _: stuck.refuse_oversized(c), {SCHEDULED, UNFINISHED}),
    "queue": (lambda c, f: queueing.queue_scheduled(c, f.scheduler_id, f.ids("scheduled")), {PK, SCHEDULED}),
    "unclaimed": (lambda c, _: stuck.unclaimed(c, 10), {ACTIVE}),
    "lock runs": (lambda c, _: decisions.lock_runs_with_news(c, 500), {"pk_dag_run"}),
    "read states": (lambda c, f: decisions.read_states(c, {run: ["t1", "t2"] for run in f.runs}), {RUN_TASK}),
    "set states": (
        lambda c, f: decisions.set_states(c, [(run, "t40", TaskState.SCHEDULED) for run in f.runs]),
        {RUN_TASK, UNFINISHED},
    ),
    "read past": (
        lambda c, f: decisions.read_past(c, {run: {"t9": ["t9", "t8"]} for run in f.runs}),
        {"uq_dag_run_dag_id_logical_date"},
    ),
    "wake next": (
        lambda c, f: decisions.wake_next_runs(c, {run: ["t8", "t9"] for run in f.runs}),
        {"uq_dag_run_dag_id_logical_date"},
    ),
    "lock timed out": (lock_timed_out, {"ix_dag_run_timeout"}),
    "stop": (lambda c, f: decisions.stop_for_failure(c, {run: ["t9"] for run in f.runs}), {UNFINISHED}),
    "stop timed out": (lambda c, f: decisions.stop_for_timeout(c, f.runs), {UNFINISHED}),
    "pause failing": (pause_failing, {"uq_dag_run_dag_id_logical_date"}),
    "unfinished": (lambda c, f: decisions.without_unfinished(c, f.runs), {UNFINISHED}),
    "finish runs": (
        lambda c, f: runs.finish_running(c, dict.fromkeys(f.runs, RunState.SUCCESS)),
        {"pk_dag_run", UNFINISHED},
    ),
    "retries due": (lambda c, _: decisions.schedule_due(c, 500), {DUE}),
    "timers": (lambda c, _: timers.seconds_until_next_due(c), {DUE, RUNS}),
    "sweep": (lambda c, _: wakeups.leave_for_active_runs(c), {RUNS}),
    "discard wake-ups": (discard_wakeups, set()),
    "notify": (lambda c, _: wakeups.notify_schedulers(c), set()),
    "remove orphans": (remove_orphans, {UNFINISHED}),
    "missing pools": (lambda c, _: stuck.count_waiting_for_missing_pools(c), {SCHEDULED, UNFINISHED}),
    "live workers": (lambda c, _: queueing.live_workers(c), set()),
    "versions": (lambda c, _: VersionCache().get(c, [1]), set()),
    "register": (lambda c, _: processes.register(c, Registration("scheduler", "new", 10)), set()),
    "renew": (lambda c, f: processes.renew(c, f.worker_id, 10), set()),
    "report": (lambda c, f: processes.report_loop(c, f.scheduler_id, LoopReport("{}")), set()),
    "overdue workers": (lambda c, _: processes.overdue_workers(c, 8), set()),
    "fence": (fence, set()),
    "end of a term": (lambda c, f: processes.end(c, f.worker_id), set()),
    "declare dead": (declare_dead, set()),
    "names of pools": (lambda c, _: pools.pool_names(c), set()),
    "clear a run that is over": (lambda c, _: clear_run(c, "r1"), {RUN_TASK}),
    "clear a run that runs": (lambda c, _: clear_run(c, FIRST_RUNNING), {RUN_TASK}),
    "mark": (mark_task, {RUN_TASK}),
    "cancel": (cancel_run, {RUN_TASK, UNFINISHED}),
    "delete": (delete_run, {RUN_TASK}),
    "forget processes": (lambda c, _: processes.forget_old(c, 0), set()),
    "create runs": (create, {"ix_dag_run_scheduled"}),
    "start runs": (start, {"ix_dag_run_queued"}),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_touches_what_it_is_about_and_no_more(big: Engine, facts: Big, name: str) -> None:
    work, indexes = STATEMENTS[name]
    plans = explain(big, lambda connection: work(connection, facts))
    assert plans
    assert set().union(*(plan.read_from_end_to_end for plan in plans)) & GROWING == set()
    assert not indexes or indexes & set().union(*(plan.indexes for plan in plans))
    assert max(plan.rows for plan in plans) <= MOST_ROWS


def test_every_statement_of_the_loop_is_explained(big: Engine, facts: Big) -> None:
    executed: set[str] = set()

    def note(_: Any, element: Any, *_more: Any) -> None:
        executed.add(str(getattr(element, "text", "")))

    event.listen(big, "before_execute", note)
    try:
        for work, _ in STATEMENTS.values():
            with big.connect() as connection:
                work(connection, facts)
    finally:
        event.remove(big, "before_execute", note)
    known = statements.of_the_loop()
    assert len(known) > 50
    assert {name for name, found in known.items() if found not in executed} == set()


def test_what_waits_to_be_started_costs_nothing_while_there_is_no_room(big: Engine) -> None:
    plans = explain(big, lambda connection: start_runs(connection, 500))
    assert {"ix_dag_run_queued", "ix_dag_run_queued_backfill"} <= set().union(*(plan.indexes for plan in plans))
    assert max(plan.rows for plan in plans) <= 400


def test_the_measure_itself_sees_a_table_that_is_read_from_end_to_end(big: Engine) -> None:
    (plan,) = explain(big, lambda c: c.execute(text("SELECT count(*) FROM task_instance WHERE error = 'x'")))
    assert plan.read_from_end_to_end == {"task_instance"}
    assert plan.rows > MOST_ROWS
