"""Plans that PostgreSQL made when the tables were empty, and still has when thousands of tasks come at once.

A long connection keeps its prepared statements, and the server keeps their plans until it next analyzes a table: a
minute or so. Until then such a plan may be bad, but what it reads must grow with the tasks, and not with their square.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.control import BATCH, Control, graph
from turnout.config.settings import Settings
from turnout.metadata import attempts
from turnout.metadata.changes import cancel, clear, mark
from turnout.metadata.changes.selection import RunSelection, TaskSelection
from turnout.metadata.engine import open_engine, transact
from turnout.metadata.messages import Broker
from turnout.metadata.states import Cause, TaskState
from turnout.scheduler.repair import Reaper

MANY = 1000
#: How often a statement may come by each task, by whichever way.
MOST_LOOKS = 12
#: What takes a batch at most may look at each of it once for each other.
MOST_ROWS = max(MANY * MOST_LOOKS, BATCH * (BATCH + 10) // 2)
_READ = "SELECT COALESCE(sum(seq_tup_read + COALESCE(idx_tup_fetch, 0)), 0) FROM pg_stat_xact_user_tables"


class Watched:
    """An engine whose plans are made once and kept, and that counts the rows that each statement reads."""

    def __init__(self, url: str) -> None:
        self.engine = open_engine(url, name="watched")
        self.rows: dict[str, int] = {}
        self._before = 0
        event.listen(self.engine, "connect", self._on_connect)
        event.listen(self.engine, "before_cursor_execute", self._on_begin)
        event.listen(self.engine, "after_cursor_execute", self._on_end)

    def _on_connect(self, connection: Any, _record: Any) -> None:
        connection.prepare_threshold = 0
        with connection.cursor() as cursor:
            cursor.execute("SET plan_cache_mode = force_generic_plan")
        connection.commit()

    def _on_begin(self, c: Any, *_rest: Any) -> None:
        self._before = self._read(c)

    def _on_end(self, c: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        rows = self._read(c) - self._before
        self.rows[statement] = max(rows, self.rows.get(statement, 0))

    @staticmethod
    def _read(c: Any) -> int:
        with c.connection.driver_connection.cursor() as cursor:
            return int(cursor.execute(_READ).fetchone()[0])


class Steady:
    """The lease of a scheduler that has had the database for long."""

    steady_s = 1e6
    transact = staticmethod(transact)


@pytest.fixture
def watched(database_url: str) -> Iterator[Watched]:
    watched = Watched(database_url)
    yield watched
    watched.engine.dispose()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    scheduler = settings.scheduler.model_copy(update={"sweep_interval_s": 0.001})
    return settings.model_copy(update={"scheduler": scheduler})


def live(control: Control, reaper: Reaper, dag_id: str, tasks: int) -> None:
    """Let a DAG's tasks be scheduled, queued, claimed and finished, and a person change all of them in between."""
    names = tuple(f"t{number}" for number in range(tasks))
    every = TaskSelection(RunSelection(dag_id, "run"), names)
    worker = control.worker(slots=2 * tasks)
    control.declare(graph(dag_id, dict.fromkeys(names, ())))
    control.insert_run(dag_id)
    control.create()
    control.start()
    control.decide()
    reaper.run_once()
    messages = control.queue(2 * tasks).messages
    assert len(messages) == tasks
    reaper.run_once()
    control.do(lambda c: clear.clear(c, every, actor="ada"))
    control.decide()
    claimed = control.claim(control.queue(2 * tasks).messages, worker)
    control.kill(worker)
    reaper.run_once()
    again = control.worker(slots=2 * tasks)
    messages = control.queue(2 * tasks).messages
    keys = [attempts.AttemptKey(message.task_instance_id, message.attempt_id) for message in messages]
    control.do(lambda c: attempts.give_back_queued(c, keys, Cause.MESSAGE_LOST))
    claimed = control.claim(control.queue(2 * tasks).messages, again)
    control.finish([one.key for one in claimed[: tasks // 2]], TaskState.UP_FOR_RETRY, retry_delay_s=0)
    control.finish([one.key for one in claimed[tasks // 2 :]])
    control.decide()
    control.do(lambda c: mark.mark_tasks(c, every, TaskState.SUCCESS, actor="ada"))
    control.decide()
    control.do(lambda c: clear.clear(c, every, actor="ada"))
    control.do(lambda c: cancel.cancel_runs(c, every.runs, actor="ada"))
    control.decide()


def test_thousands_of_tasks_that_come_at_once_are_not_looked_at_by_the_square(
    engine: Engine, watched: Watched, broker: Broker, settings: Settings
) -> None:
    assert engine
    control = Control(watched.engine)
    control.sql("UPDATE pool SET slots = 10000")
    reaper = Reaper(watched.engine, broker, Steady(), settings)  # type: ignore[arg-type]
    live(control, reaper, "small", 3)
    watched.rows.clear()
    live(control, reaper, "large", MANY)
    bad = {" ".join(statement.split())[:70]: rows for statement, rows in watched.rows.items() if rows > MOST_ROWS}
    assert bad == {}
