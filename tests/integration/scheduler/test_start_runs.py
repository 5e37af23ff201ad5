"""Step 2, start runs: within `max_active_runs`, in turn over the DAGs."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.control import Control, graph
from turnout.metadata.engine import transact
from turnout.scheduler.start_runs import start_runs


@contextmanager
def counted(engine: Engine) -> Iterator[list[str]]:
    """Count the statements."""
    statements: list[str] = []

    def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", note)


def declare(control: Control, dag_id: str, runs: int, max_active_runs: int = 16) -> list[int]:
    control.declare(graph(dag_id, {"a": [], "b": ["a"]}, max_active_runs=max_active_runs))
    return [control.insert_run(dag_id, f"run{number}") for number in range(runs)]


def running(control: Control, dag_id: str) -> list[str]:
    return control.sql(
        "SELECT run_id FROM dag_run WHERE dag_id = :dag_id AND state = 'running' ORDER BY run_id", dag_id=dag_id
    )


def test_a_started_run_has_its_task_instances_and_a_wake_up(control: Control) -> None:
    (run,) = declare(control, "d", 1)
    assert control.start() == 1
    assert control.states(run) == {"a": "none", "b": "none"}
    assert control.sql("SELECT dag_run_id, task_id FROM wakeup") == [(run, None)]
    assert control.sql("SELECT started_at IS NOT NULL FROM dag_run") == [True]
    assert control.start() == 0


def test_task_instances_take_what_the_author_said(control: Control) -> None:
    task = {"pool_slots": 2, "queue": "gpu", "retries": 3, "priority_weight": 5}
    control.prepare(graph("d", {"a": [], "b": ["a"]}, task=task))
    found = control.sql(
        "SELECT task_id, pool, pool_slots, queue, max_tries, priority_weight FROM task_instance ORDER BY task_id"
    )
    assert found == [("a", "default_pool", 2, "gpu", 3, 10), ("b", "default_pool", 2, "gpu", 3, 5)]


def test_a_run_gets_the_version_that_is_current_when_it_starts(control: Control) -> None:
    (run,) = declare(control, "d", 1)
    control.sql("UPDATE dag_run SET dag_version_id = current_version_id FROM dag")
    control.declare(graph("d", {"new": []}))
    control.start()
    assert control.states(run) == {"new": "none"}


def test_a_run_that_was_cleared_keeps_its_version_when_it_starts_again(control: Control) -> None:
    (run,) = declare(control, "d", 1)
    control.start()
    control.sql("UPDATE dag_run SET state = 'failed'")
    control.sql_of_person("UPDATE dag_run SET state = 'queued'")
    control.declare(graph("d", {"new": []}))
    assert control.start() == 1
    assert control.states(run) == {"a": "none", "b": "none"}


def test_what_a_run_that_starts_again_on_another_version_has_of_tasks_that_are_gone_is_removed(
    control: Control,
) -> None:
    control.declare(graph("d", {"old": [], "gone": ["old"], "stays": ["gone"]}))
    run = control.insert_run("d")
    control.start()
    control.sql("UPDATE task_instance SET state = 'scheduled' WHERE task_id = 'old'")
    control.sql("UPDATE dag_run SET state = 'failed'")
    control.declare(graph("d", {"stays": [], "new": []}))
    control.sql_of_person("UPDATE dag_run r SET state = 'queued', dag_version_id = d.current_version_id FROM dag d")
    control.start()
    assert control.states(run) == {"old": "removed", "gone": "removed", "stays": "none", "new": "none"}
    assert set(control.sql("SELECT cause FROM task_instance WHERE state = 'removed'")) == {"task_removed"}
    worker = control.worker()
    control.decide()
    control.work(control.queue().messages, worker)
    control.decide()
    assert control.run_state(run) == "success"


def test_a_run_that_somebody_holds_is_left_alone(control: Control) -> None:
    declare(control, "d", 2)
    with control.engine.begin() as connection:
        connection.exec_driver_sql("SELECT 1 FROM dag_run WHERE run_id = 'run0' FOR NO KEY UPDATE")
        assert control.start() == 1
    assert running(control, "d") == ["run1"]


def test_no_more_runs_are_active_than_the_dag_allows(control: Control) -> None:
    declare(control, "d", 5, max_active_runs=2)
    assert control.start() == 2
    assert control.start() == 0
    assert running(control, "d") == ["run0", "run1"]
    control.sql("UPDATE dag_run SET state = 'success' WHERE run_id = 'run0'")
    assert control.start() == 1
    assert running(control, "d") == ["run1", "run2"]


def test_dags_take_turns(control: Control) -> None:
    declare(control, "many", 10)
    declare(control, "few", 2)
    assert control.start(limit=4) == 4
    assert (running(control, "many"), running(control, "few")) == (["run0", "run1"], ["run0", "run1"])


def test_a_run_waits_for_its_time(control: Control) -> None:
    (run,) = declare(control, "d", 1)
    control.sql("UPDATE dag_run SET run_after = now() + interval '1 hour'")
    assert control.start() == 0
    control.sql("UPDATE dag_run SET run_after = now()")
    assert control.start() == 1
    assert control.run_state(run) == "running"


@pytest.mark.parametrize("column", ["is_paused = true", "is_active = false"])
def test_no_run_of_a_dag_that_is_paused_or_gone_is_started(control: Control, column: str) -> None:
    declare(control, "d", 1)
    control.sql(f"UPDATE dag SET {column}")  # noqa: S608
    assert control.start() == 0


@pytest.mark.parametrize("turn", range(5))
def test_schedulers_at_the_same_time_start_no_more_than_allowed(control: Control, engine: Engine, turn: int) -> None:
    for number in range(4):
        declare(control, f"dag{turn}_{number}", 6, max_active_runs=3)
    together = Barrier(3)

    def start(_: int) -> int:
        together.wait(10)
        return sum(transact(engine, partial(start_runs, limit=limit)) for limit in (1, 2, 500))

    with ThreadPoolExecutor(3) as threads:
        started = list(threads.map(start, range(3)))
    assert sum(started) == control.sql("SELECT count(*) FROM dag_run WHERE state = 'running'")[0]
    assert set(control.sql("SELECT count(*) FROM dag_run WHERE state = 'running' GROUP BY dag_id")) == {3}
    assert set(control.sql("SELECT count(*) FROM task_instance GROUP BY dag_run_id")) == {2}


def test_runs_that_another_scheduler_is_starting_count_already(control: Control) -> None:
    declare(control, "d", 3, max_active_runs=2)
    with control.engine.begin() as other:
        assert start_runs(other, 500) == 2
        control.insert_run("d", "earlier", run_after="2013-01-01")
        assert control.start(limit=1) == 0
    assert control.start() == 0
    assert running(control, "d") == ["run0", "run1"]


def crowd(control: Control, dag_id: str, runs: int, run_type: str = "manual", **dag: int) -> None:
    """Declare a DAG with many queued runs, which have waited longer than any other."""
    control.declare(graph(dag_id, {"a": []}, **{"max_active_runs": 1, **dag}))
    control.sql(
        "INSERT INTO dag_run (dag_id, run_id, run_type, run_after)"
        " SELECT :dag_id, :run_type || n, :run_type, timestamptz '2013-01-01' + n * interval '1 hour'"
        " FROM generate_series(1, :runs) n",
        dag_id=dag_id,
        run_type=run_type,
        runs=runs,
    )


@pytest.mark.parametrize("crowds", [1, 50])
def test_thousands_of_waiting_runs_delay_no_other_dag(control: Control, crowds: int) -> None:
    for number in range(crowds):
        crowd(control, f"crowd{number:02}", 2000)
    declare(control, "zz_single", 1)
    control.sql("ANALYZE dag_run")
    with counted(control.engine) as first:
        assert control.start() == crowds + 1
    assert running(control, "zz_single") == ["run0"]
    assert {len(running(control, f"crowd{number:02}")) for number in range(crowds)} == {1}
    declare(control, "zz_second", 1)
    with counted(control.engine) as second:  # all crowds are full now
        assert control.start() == 1
    assert running(control, "zz_second") == ["run0"]
    assert len(first) <= 8
    assert len(second) <= 8


def test_a_batch_that_is_smaller_than_the_dags_serves_those_first_that_waited_longest(control: Control) -> None:
    for name in "abc":
        declare(control, name, 2)
    control.sql("UPDATE dag_run SET run_after = now() - interval '1 hour' WHERE dag_id = 'c' AND run_id = 'run0'")
    assert control.start(limit=1) == 1
    assert running(control, "c") == ["run0"]


def test_a_run_of_higher_priority_starts_first_though_it_came_last(control: Control) -> None:
    crowd(control, "d", 100)
    control.insert_run("d", "urgent", priority=1)
    control.insert_run("d", "low", priority=-1, run_after="2012-01-01")
    assert control.start() == 1
    assert running(control, "d") == ["urgent"]


def end_one(control: Control, dag_id: str) -> None:
    control.sql(
        "UPDATE dag_run SET state = 'success' WHERE id = (SELECT min(id) FROM dag_run WHERE dag_id = :d AND state ="
        " 'running')",
        d=dag_id,
    )


def test_backfills_come_along_with_room_for_one_run(control: Control) -> None:
    crowd(control, "d", 50)
    crowd(control, "d", 50, "backfill")
    started = []
    for _ in range(9):
        assert control.start() == 1
        started += running(control, "d")
        end_one(control, "d")
    kinds = ["backfill" if "backfill" in run else "run" for run in started]
    assert kinds == ["run", "run", "run", "backfill"] * 2 + ["run"]


def test_backfills_have_their_share_of_a_dag_and_what_nobody_else_wants(control: Control) -> None:
    crowd(control, "both", 50, max_active_runs=8)
    crowd(control, "both", 50, "backfill", max_active_runs=8)
    crowd(control, "alone", 50, "backfill", max_active_runs=8)
    control.start()
    assert sum("backfill" in run for run in running(control, "both")) == 2
    assert len(running(control, "both")) == 8
    assert len(running(control, "alone")) == 8


@pytest.mark.parametrize("turn", range(3))
def test_schedulers_at_the_same_time_agree_on_the_share_of_backfills(
    control: Control, engine: Engine, turn: int
) -> None:
    dag_id = f"d{turn}"
    crowd(control, dag_id, 200)
    crowd(control, dag_id, 200, "backfill")
    together, per_scheduler = Barrier(3), 8

    def schedule(_: int) -> int:
        together.wait(10)
        started = 0
        while started < per_scheduler:
            if transact(engine, lambda c: start_runs(c, 500)):
                started += 1
                end_one(control, dag_id)
        return started

    with ThreadPoolExecutor(3) as threads:
        assert sum(threads.map(schedule, range(3))) == 3 * per_scheduler
    kinds = dict(
        control.sql("SELECT run_type, count(*) FROM dag_run WHERE state = 'success' GROUP BY run_type ORDER BY 1")
    )
    assert kinds == {"backfill": 6, "manual": 18}
