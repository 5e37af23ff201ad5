"""The control of a test: DAGs made on the spot, the scheduler's steps one by one, a worker that does as it is told."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Engine, text

from tests import rows
from turnout.metadata import attempts, processes
from turnout.metadata.attempts import AttemptKey, ClaimedAttempt, FinishedAttempt
from turnout.metadata.dags import DeclaredDag, save_dag
from turnout.metadata.engine import Connection, transact
from turnout.metadata.messages import AttemptMessage
from turnout.metadata.persons import act_as_person
from turnout.metadata.processes import Registration
from turnout.metadata.states import Outcome, TaskState
from turnout.metadata.versions import VersionCache
from turnout.scheduler.create_runs import create_due_runs
from turnout.scheduler.decide import Decided, decide
from turnout.scheduler.queue import Queued, queue_ready
from turnout.scheduler.start_runs import start_runs
from turnout.tasks import DAG, BashOperator, EmptyOperator
from turnout.tasks.serialization import content_hash, serialize

T = TypeVar("T")

BATCH = 500
#: What an attempt's end looks like, by the word that tests use for it.
OUTCOMES = {
    TaskState.SUCCESS: Outcome.SUCCESS,
    TaskState.SKIPPED: Outcome.SKIPPED,
    TaskState.FAILED: Outcome.FAILED,
    TaskState.UP_FOR_RETRY: Outcome.FAILED,
    TaskState.SCHEDULED: Outcome.LOST,
}


def graph(
    dag_id: str, upstream: Mapping[str, Iterable[str]], *, empty: Iterable[str] = (), task: Any = None, **dag: Any
) -> DAG:
    """Make a DAG of tasks that do nothing, any number of which may be active.

    Args:
        dag_id: its id.
        upstream: for each task id, those it waits for.
        empty: which of them are EmptyOperators.
        task: arguments of all tasks.
        dag: arguments of the DAG.
    """
    given = task or {}
    with DAG(dag_id, **{"max_active_tasks": 10_000, **dag}) as made:
        tasks = {
            name: EmptyOperator(task_id=name, **given)
            if name in empty
            else BashOperator(task_id=name, bash_command="true", **given)
            for name in upstream
        }
        for name, before in upstream.items():
            for other in before:
                tasks[other] >> tasks[name]
    return made


class Control:
    """Runs the steps of the scheduler on one database, and plays the worker."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.versions = VersionCache()
        self.scheduler_id = self.do(rows.insert_scheduler)

    def do(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction."""
        return transact(self.engine, work)

    def sql(self, statement: str, **values: Any) -> list[Any]:
        """Run one statement; return its rows as tuples, or as plain values when they have one column."""

        return self.do(lambda c: _rows(c, statement, values))

    def sql_of_person(self, statement: str, **values: Any) -> list[Any]:
        """Run one statement that changes what only a person may change."""

        def work(connection: Connection) -> list[Any]:
            act_as_person(connection)
            return _rows(connection, statement, values)

        return self.do(work)

    def declare(self, *dags: DAG) -> None:
        """Insert DAGs, as the DAG processor does."""
        for dag in dags:
            content = serialize(dag)
            declared = DeclaredDag(dag.dag_id, content_hash(content), content)
            self.do(partial(save_dag, file_path="test.py", dag=declared, paused_at_creation=False))

    def insert_run(self, dag_id: str, run_id: str = "run", **columns: Any) -> int:
        """Insert a queued run that may start now; return its id."""
        given = {"dag_id": dag_id, "run_id": run_id, "run_type": "manual", **columns}
        names, values = ", ".join(given), ", ".join(f":{name}" for name in given)
        (run,) = self.sql(f"INSERT INTO dag_run ({names}) VALUES ({values}) RETURNING id", **given)  # noqa: S608
        return int(run)

    def create(self) -> int:
        """Step 1."""
        return self.do(lambda c: create_due_runs(c, BATCH))

    def start(self, limit: int = BATCH) -> int:
        """Step 2."""
        return self.do(lambda c: start_runs(c, limit))

    def decide(self, limit: int = BATCH) -> Decided:
        """Step 3."""
        return self.do(lambda c: decide(c, self.versions, limit))

    def queue(self, limit: int = BATCH, scheduler_id: int | None = None, parallelism: int | None = None) -> Queued:
        """Step 4."""
        return self.do(lambda c: queue_ready(c, scheduler_id or self.scheduler_id, limit, parallelism))

    def prepare(self, dag: DAG, run_id: str = "run") -> int:
        """Declare a DAG, start a run of it and decide once; return the run's id."""
        self.declare(dag)
        run = self.insert_run(dag.dag_id, run_id)
        self.start()
        self.decide()
        return run

    def worker(self, slots: int = 100, lease_s: float = 3600, **columns: Any) -> int:
        """Register a worker of all pools and of the queue `default`."""
        registration = Registration("worker", "w", lease_s, **{"queues": ["default"], "slots": slots, **columns})
        return self.do(lambda c: processes.register(c, registration))

    def claim(self, messages: Sequence[AttemptMessage], worker_id: int) -> list[ClaimedAttempt]:
        """Claim the attempts of some messages."""
        return self.do(lambda c: attempts.claim_queued(c, worker_id, [key_of(message) for message in messages]))

    def finish(self, keys: Iterable[AttemptKey], state: TaskState = TaskState.SUCCESS, **more: Any) -> list[AttemptKey]:
        """Finish attempts."""
        ended = [FinishedAttempt(key, state, OUTCOMES[state], **more) for key in keys]
        return self.do(lambda c: attempts.finish_if_running(c, ended))

    def work(self, messages: Sequence[AttemptMessage], worker_id: int, **states: TaskState) -> None:
        """Run attempts; each succeeds, unless another state is given by its task id."""
        for claimed in self.claim(messages, worker_id):
            self.finish([claimed.key], states.get(claimed.task_id, TaskState.SUCCESS))

    def states(self, run: int) -> dict[str, str]:
        """Read the states of a run's task instances by task id."""
        return dict(self.sql("SELECT task_id, state FROM task_instance WHERE dag_run_id = :run", run=run))

    def run_state(self, run: int) -> str:
        """Read the state of a run."""
        return str(self.sql("SELECT state FROM dag_run WHERE id = :run", run=run)[0])

    def kill(self, process_id: int) -> None:
        """Let the lease of a process be over, as if it had been killed some time ago."""
        self.sql("UPDATE process SET lease_expires_at = now() - interval '1 s' WHERE id = :id", id=process_id)


def _rows(connection: Connection, statement: str, values: Mapping[str, Any]) -> list[Any]:
    result = connection.execute(text(statement), values)
    found = [tuple(row) for row in result] if result.returns_rows else []
    return [row[0] if len(row) == 1 else row for row in found]


def key_of(message: AttemptMessage) -> AttemptKey:
    """Say which attempt a message is about."""
    return AttemptKey(message.task_instance_id, message.attempt_id)
