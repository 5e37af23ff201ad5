"""What an explanation says is what the critical section does.

Situations are drawn at random, with all limits at once. For every task instance that waits in one, the explanation is
asked and the pass is made. It says "can start" of those that the pass queues, and of no others; and when it names one
reason, and that is removed as its remedy says, the pass queues the task instance.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text

from tests.control import Control, graph
from turnout.config.settings import SchedulerSettings
from turnout.metadata import processes
from turnout.metadata.listings.explanations import Reason, TaskExplanation, Why
from turnout.metadata.processes import Registration
from turnout.scheduler.explaining.run import explain_run
from turnout.scheduler.explaining.task import explain_task
from turnout.scheduler.queue import queue_ready

PLENTY = 1000
POOLS = ("default_pool", "small", "extra")

pools = st.fixed_dictionaries(
    {
        "slots": st.sampled_from([0, 1, 2, 3, 4, PLENTY, PLENTY, PLENTY]),
        "include_deferred": st.booleans(),
        "rate": st.sampled_from([None, None, None, 1, 2]),
        "started": st.integers(0, 1),
    }
)
tasks = st.fixed_dictionaries(
    {
        "pool": st.sampled_from(["default_pool", *POOLS, *POOLS, "missing"]),
        "extra_pools": st.sampled_from([None, None, {"extra": 1}, {"extra": 2}, {"missing": 1}]),
        "pool_slots": st.integers(1, 3),
        "queue": st.sampled_from(["default", "default", "gpu"]),
        "priority_weight": st.integers(1, 3),
        "max_active_tis_per_dag": st.sampled_from([None, None, 1, 2]),
        "max_active_tis_per_dagrun": st.sampled_from([None, None, 1]),
        # For each run and map index, its state.
        "states": st.lists(
            st.sampled_from(["scheduled", "scheduled", "scheduled", "queued", "running", "deferred"]),
            min_size=2,
            max_size=3,
        ),
    }
)
dags = st.fixed_dictionaries(
    {
        "is_paused": st.sampled_from([False, False, False, True]),
        "max_active_tasks": st.sampled_from([1, 2, 3, PLENTY, PLENTY]),
        "run_priority": st.integers(0, 1),
        "tasks": st.lists(tasks, min_size=1, max_size=2),
    }
)
workers = st.fixed_dictionaries(
    {
        "queues": st.sampled_from([["default"], ["gpu"], ["default", "gpu"]]),
        "pools": st.sampled_from([None, None, ["small"], ["default_pool", "extra", "missing"]]),
        "slots": st.sampled_from([0, 1, 2, 4, PLENTY, PLENTY]),
    }
)
situations = st.fixed_dictionaries(
    {
        "pools": st.tuples(pools, pools, pools),
        "dags": st.lists(dags, min_size=1, max_size=3),
        "workers": st.lists(workers, min_size=0, max_size=4),
        "parallelism": st.sampled_from([None, None, None, 1, 3, 6]),
        "has_scheduler": st.sampled_from([True, True, True, True, False]),
    }
)


@dataclass(frozen=True)
class Waiting:
    """A task instance that waits."""

    id: int
    dag_id: str
    run_id: str
    task_id: str
    map_index: int


class Situation:
    """Some rows that make a situation, in a transaction that is never committed."""

    def __init__(self, connection: Connection, drawn: dict[str, Any]) -> None:
        self.connection = connection
        self.parallelism: int | None = drawn["parallelism"]
        self.sql("DELETE FROM pool")
        for name, pool in zip(POOLS, drawn["pools"], strict=True):
            self.pool(name, pool)
        self.workers = [processes.register(connection, _worker(n, w)) for n, w in enumerate(drawn["workers"])]
        self.scheduler = self.register_scheduler() if drawn["has_scheduler"] else -1
        for number, dag in enumerate(drawn["dags"]):
            self.dag(f"d{number}", dag)

    def sql(self, statement: str, **values: Any) -> list[Any]:
        result = self.connection.execute(text(statement), values)
        return list(result) if result.returns_rows else []

    def register_scheduler(self) -> int:
        return processes.register(self.connection, Registration("scheduler", "s", 3600))

    def pool(self, name: str, pool: dict[str, Any]) -> None:
        self.sql(
            """
            INSERT INTO pool (name, slots, include_deferred, rate_starts, rate_period_s)
            VALUES (:name, :slots, :include_deferred, :rate, CASE WHEN :rate IS NOT NULL THEN 3600 END)
            """.replace(":rate", "CAST(:rate AS int)"),
            name=name,
            **{key: pool[key] for key in ("slots", "include_deferred", "rate")},
        )
        if pool["started"]:
            self.sql("INSERT INTO pool_start (pool, starts) VALUES (:name, :starts)", name=name, starts=pool["started"])

    def dag(self, dag_id: str, dag: dict[str, Any]) -> None:
        self.sql(
            """
            INSERT INTO dag (dag_id, is_paused, file_path, max_active_runs, max_active_tasks)
            VALUES (:dag_id, :is_paused, 'f.py', 16, :max_active_tasks)
            """,
            dag_id=dag_id,
            is_paused=dag["is_paused"],
            max_active_tasks=dag["max_active_tasks"],
        )
        runs = [
            self.sql(
                """
                INSERT INTO dag_run (dag_id, run_id, run_type, state, priority)
                VALUES (:dag_id, :run_id, 'manual', 'running', :priority) RETURNING id
                """,
                dag_id=dag_id,
                run_id=f"r{number}",
                priority=dag["run_priority"] * number,
            )[0].id
            for number in range(2)
        ]
        for number, task in enumerate(dag["tasks"]):
            for index, state in enumerate(task["states"]):
                self.task(dag_id, runs[index % 2], f"t{number}", index, {**task, "state": state})

    def task(self, dag_id: str, run: int, task_id: str, index: int, task: dict[str, Any]) -> None:
        if task["state"] == "running" and not self.workers:
            task["state"] = "queued"
        given = {key: value for key, value in task.items() if key != "states"}
        given["extra_pools"] = (
            None if not task["extra_pools"] or task["pool"] in task["extra_pools"] else json.dumps(task["extra_pools"])
        )
        worker = self.workers[index % len(self.workers)] if task["state"] == "running" else None
        self.sql(
            """
            INSERT INTO task_instance (dag_run_id, dag_id, task_id, map_index, state, pool, pool_slots, extra_pools,
                                       queue, priority_weight, max_active_tis_per_dag, max_active_tis_per_dagrun,
                                       run_priority, worker_id, attempt_id, queued_at, started_at)
            SELECT :run, :dag_id, :task_id, :index, :state, :pool, :pool_slots, CAST(:extra_pools AS jsonb), :queue,
                   :priority_weight, CAST(:max_active_tis_per_dag AS int), CAST(:max_active_tis_per_dagrun AS int),
                   r.priority, CAST(:worker AS bigint), gen_random_uuid(), now(), now()
            FROM dag_run r WHERE r.id = :run
            """,
            run=run,
            dag_id=dag_id,
            task_id=task_id,
            index=index,
            worker=worker,
            **given,
        )

    def waiting(self) -> list[Waiting]:
        return [
            Waiting(*row)
            for row in self.sql("""
                SELECT t.id, t.dag_id, r.run_id, t.task_id, t.map_index
                FROM task_instance t JOIN dag_run r ON r.id = t.dag_run_id WHERE t.state = 'scheduled' ORDER BY t.id
            """)
        ]

    def explain(self, task: Waiting) -> TaskExplanation:
        limits = SchedulerSettings(parallelism=self.parallelism)
        return explain_task(
            self.connection, task.dag_id, task.run_id, task.task_id, map_index=task.map_index, settings=limits
        )

    @contextmanager
    def what_if(self) -> Iterator[None]:
        """Undo what is done in the block."""
        parallelism, scheduler = self.parallelism, self.scheduler
        with self.connection.begin_nested() as savepoint:
            yield
            savepoint.rollback()
        self.parallelism, self.scheduler = parallelism, scheduler

    def queued(self) -> set[int]:
        """Make a pass; say which task instances it queued."""
        queue_ready(self.connection, self.scheduler, 500, self.parallelism)
        return {row.id for row in self.sql("SELECT id FROM task_instance WHERE state = 'queued' AND scheduler_id > 0")}

    def remove(self, task: Waiting, reason: Reason) -> None:
        """Do what the remedy of a reason says."""
        REMEDIES[reason.reason](self, task, reason)


def _worker(number: int, drawn: dict[str, Any]) -> Registration:
    return Registration("worker", f"w{number}", 3600, **drawn)


def add_worker(situation: Situation, _: Waiting, reason: Reason) -> None:
    pool, _, queue = str(reason.subject).partition(".")
    processes.register(
        situation.connection, Registration("worker", "more", 3600, queues=[queue], pools=[pool], slots=PLENTY)
    )


def add_scheduler(situation: Situation, *_: object) -> None:
    situation.scheduler = situation.register_scheduler()


def lift_parallelism(situation: Situation, *_: object) -> None:
    situation.parallelism = None


def by_sql(statement: str) -> Callable[[Situation, Waiting, Reason], None]:
    def do(situation: Situation, task: Waiting, reason: Reason) -> None:
        values = {"subject": reason.subject, "dag_id": task.dag_id, "task_id": task.task_id, "plenty": PLENTY}
        situation.sql(statement, **{key: value for key, value in values.items() if f":{key}" in statement})

    return do


more_slots = by_sql("UPDATE pool SET slots = :plenty WHERE name = :subject")
REMEDIES: dict[Why, Callable[[Situation, Waiting, Reason], None]] = {
    Why.DAG_PAUSED: by_sql("UPDATE dag SET is_paused = false WHERE dag_id = :subject"),
    Why.POOL_FULL: more_slots,
    Why.POOL_RESERVED: more_slots,
    Why.POOL_TOO_SMALL: more_slots,
    Why.POOL_MISSING: by_sql("INSERT INTO pool (name, slots) VALUES (:subject, :plenty)"),
    Why.POOL_RATE: by_sql("UPDATE pool SET rate_starts = NULL, rate_period_s = NULL WHERE name = :subject"),
    Why.MAX_ACTIVE_TASKS: by_sql("UPDATE dag SET max_active_tasks = :plenty WHERE dag_id = :dag_id"),
    Why.MAX_ACTIVE_TIS_PER_DAG: by_sql(
        "UPDATE task_instance SET max_active_tis_per_dag = NULL WHERE dag_id = :dag_id AND task_id = :task_id"
    ),
    Why.MAX_ACTIVE_TIS_PER_DAGRUN: by_sql(
        "UPDATE task_instance SET max_active_tis_per_dagrun = NULL WHERE dag_id = :dag_id AND task_id = :task_id"
    ),
    Why.PARALLELISM: lift_parallelism,
    Why.NO_WORKER: add_worker,
    Why.WORKERS_BUSY: add_worker,
    Why.NO_SCHEDULER: add_scheduler,
}


def test_an_explanation_is_what_the_critical_section_does(engine: Engine) -> None:
    removed = set[Why]()

    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(drawn=situations)
    def check(drawn: dict[str, Any]) -> None:
        with engine.connect() as connection:
            situation = Situation(connection, drawn)
            with situation.what_if():
                queued = situation.queued()
            for task in situation.waiting():
                explanation = situation.explain(task)
                blocking = [reason for reason in explanation.reasons if reason.is_blocking]
                note(f"{task}: {[(reason.reason, reason.message) for reason in explanation.reasons]}")
                assert explanation.reasons
                assert (Why.CAN_START in [reason.reason for reason in explanation.reasons]) == (not blocking)
                assert (task.id in queued) == (not blocking)
                if len(blocking) == 1:
                    with situation.what_if():
                        situation.remove(task, blocking[0])
                        assert task.id in situation.queued(), blocking[0]
                    removed.add(blocking[0].reason)
            connection.rollback()

    check()
    assert len(removed) > 7, removed  # else the drawing has become too narrow


lines = st.lists(
    st.fixed_dictionaries(
        {
            "run_type": st.sampled_from(["manual", "manual", "backfill"]),
            "state": st.sampled_from(["queued", "queued", "queued", "running"]),
            "priority": st.integers(0, 1),
            "due_in_h": st.sampled_from([-1, -1, -1, 1]),
        }
    ),
    min_size=1,
    max_size=7,
)


@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    drawn=lines,
    max_active_runs=st.integers(0, 5),
    turn=st.sampled_from([0.0, 0.5, 0.8]),
    is_paused=st.sampled_from([False, False, False, True]),
)
def test_a_run_is_said_to_start_just_when_it_is_started(
    control: Control, drawn: list[dict[str, Any]], max_active_runs: int, turn: float, is_paused: bool
) -> None:
    control.sql("DELETE FROM dag")
    control.declare(graph("d", {"t": []}, max_active_runs=max(1, max_active_runs)))
    for number, run in enumerate(drawn):
        columns = {key: run[key] for key in ("run_type", "state", "priority")}
        control.insert_run("d", f"r{number}", **columns)
        control.sql(
            "UPDATE dag_run SET run_after = now() + make_interval(hours => :h) WHERE run_id = :run_id",
            h=run["due_in_h"],
            run_id=f"r{number}",
        )
    values = {"most": max_active_runs, "turn": turn, "is_paused": is_paused}
    control.sql("UPDATE dag SET max_active_runs = :most, backfill_turn = :turn, is_paused = :is_paused", **values)
    queued = control.sql("SELECT run_id FROM dag_run WHERE state = 'queued'")
    told = {run_id: control.do(lambda c, run_id=run_id: explain_run(c, "d", run_id)) for run_id in queued}
    control.start()
    started = set(control.sql("SELECT run_id FROM dag_run WHERE state = 'running'"))
    for run_id, explanation in told.items():
        words = [reason.reason for reason in explanation.reasons]
        note(f"{run_id}: {words}")
        assert (run_id in started) == (words == [Why.CAN_START])
        assert any(reason.is_blocking for reason in explanation.reasons) == (run_id not in started)
