"""Step 2, start runs: within `max_active_runs`, in turn over the DAGs."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest
from sqlalchemy import Engine

from tests.control import Control, graph
from turnout.metadata.engine import transact
from turnout.scheduler.start_runs import start_runs


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
