"""To explain costs little, whatever lies in the tables: a long past, and a long line."""

import json
from collections.abc import Iterator
from functools import partial

import pytest
from sqlalchemy import Connection, Engine, text

from tests.conftest import Servers
from tests.control import graph
from tests.integration.metadata.test_explain import GROWING
from tests.integration.metadata.test_explain import explain as plans_of
from turnout.metadata import processes
from turnout.metadata.engine import open_engine
from turnout.metadata.listings.explanations import TaskExplanation, Why
from turnout.metadata.processes import Registration
from turnout.scheduler.explaining.run import explain_run
from turnout.scheduler.explaining.task import explain_task
from turnout.tasks.serialization import serialize

#: Runs of 100 task instances: 100,000 have ended, 10,000 wait.
ENDED_RUNS, WAITING_RUNS = 1000, 100
#: The line itself is counted, once for how many and once for the first few, with the DAG of each.
MOST_ROWS = 45_000

_FILL = (
    "INSERT INTO pool (name, slots) VALUES ('cards', 3)",
    """
    INSERT INTO dag (dag_id, is_paused, file_path, max_active_runs, max_active_tasks)
    SELECT 'd' || n, false, 'd.py', 16, 16 FROM generate_series(0, 9) n
    """,
    """
    INSERT INTO dag_version (dag_id, version_number, content_hash, content)
    SELECT 'd' || n, 1, 'x', CAST(:content AS jsonb) FROM generate_series(0, 9) n
    """,
    """
    INSERT INTO dag_run (dag_id, run_id, run_type, state, logical_date, run_after, dag_version_id)
    SELECT 'd' || n % 10, 'r' || n, 'scheduled', CASE WHEN n <= :ended THEN 'success' ELSE 'running' END,
           timestamptz '2013-01-01' + (n || ' hours')::interval, now(),
           (SELECT id FROM dag_version v WHERE v.dag_id = 'd' || n % 10)
    FROM generate_series(1, :runs) n ORDER BY n
    """,
    """
    INSERT INTO task_instance (dag_run_id, dag_id, task_id, state, attempt_id, pool, pool_slots, queue,
                               priority_weight, run_date, queued_at, started_at, worker_id, max_active_tis_per_dag)
    SELECT r.id, r.dag_id, 't' || n, CASE WHEN r.state = 'success' THEN 'success' WHEN n < 1 THEN 'running'
           ELSE 'scheduled' END, gen_random_uuid(), 'cards', 1, 'default', n % 3, r.logical_date, now(), now(), :worker,
           CASE WHEN n = 99 THEN 7 END
    FROM dag_run r, generate_series(0, 99) n
    """,
    """
    INSERT INTO task_instance (dag_run_id, dag_id, task_id, state, pool, pool_slots, queue, priority_weight)
    SELECT r.id, r.dag_id, 'last', 'none', 'cards', 1, 'default', 1 FROM dag_run r WHERE r.state = 'running'
    """,
    "INSERT INTO dag_run (dag_id, run_id, run_type) SELECT 'd1', 'q' || n, 'manual' FROM generate_series(0, 999) n",
)


@pytest.fixture(scope="module")
def long(servers: Servers, template: str) -> Iterator[Engine]:
    """A database with a long past and a long line."""
    servers.execute(f"CREATE DATABASE long TEMPLATE {template}")
    engine = open_engine(servers.database("long"), name="test")
    with engine.begin() as connection:
        processes.register(connection, Registration("scheduler", "s", 3600))
        worker = processes.register(connection, Registration("worker", "w", 3600, queues=["default"], slots=200))
        content = json.dumps(serialize(graph("d", {"t1": [], "last": ["t1"]}, task={"depends_on_past": True})))
        values = {"content": content, "ended": ENDED_RUNS, "runs": ENDED_RUNS + WAITING_RUNS, "worker": worker}
        for statement in _FILL:
            connection.execute(text(statement), values)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
    yield engine
    engine.dispose()
    servers.execute("DROP DATABASE long WITH (FORCE)")


@pytest.mark.parametrize("task_id", ["t0", "t1", "t99", "last"])
def test_to_explain_a_task_reads_no_table_that_grows_from_end_to_end(long: Engine, task_id: str) -> None:
    found: list[TaskExplanation] = []

    def work(connection: Connection) -> None:
        found.append(explain_task(connection, "d9", "r1099", task_id))

    plans = plans_of(long, work)
    assert found[0].reasons
    assert set().union(*(plan.read_from_end_to_end for plan in plans)) & GROWING == set()
    assert max(plan.rows for plan in plans) <= MOST_ROWS
    assert len(plans) < 60


def test_the_last_of_a_long_line_is_told_how_long_it_is(long: Engine) -> None:
    with long.connect() as connection:
        explanation = explain_task(connection, "d9", "r1099", "t99")
    assert explanation.line is not None
    assert (explanation.line.before, len(explanation.line.first)) == (
        9_866,
        3,
    )  # all of more weight, and the older ones of the same
    assert explanation.reasons[0].reason is Why.POOL_FULL


def test_to_explain_a_run_reads_no_table_that_grows_from_end_to_end(long: Engine) -> None:
    for run_id in ("r1099", "q999"):
        plans = plans_of(long, partial(_explain_run, run_id=run_id))
        assert set().union(*(plan.read_from_end_to_end for plan in plans)) & GROWING == set()
        assert max(plan.rows for plan in plans) <= MOST_ROWS


def _explain_run(connection: Connection, run_id: str) -> None:
    explain_run(connection, "d9" if run_id.startswith("r") else "d1", run_id)
