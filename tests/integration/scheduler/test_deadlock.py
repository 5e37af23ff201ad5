"""A step that meets a deadlock is done again, and nothing of the first try is left."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
import structlog
from sqlalchemy import event, text

from tests.control import Control, graph
from turnout.config.settings import Settings
from turnout.executor.publisher import CeleryBroker
from turnout.scheduler.loop import Scheduler

Eventually = Callable[..., object]


@pytest.fixture
def scheduler(settings: Settings, broker: CeleryBroker) -> Iterator[Scheduler]:
    scheduler = Scheduler(settings, broker, "s1")
    scheduler._lease.start()
    yield scheduler
    scheduler.stop()


def test_a_scheduler_that_is_the_victim_of_a_deadlock_goes_on(
    control: Control, scheduler: Scheduler, eventually: Eventually
) -> None:
    control.worker()
    control.declare(graph("d", {"a": [], "b": ["a"]}))
    run = control.insert_run("d")
    control.start()
    errors: list[Any] = []
    event.listen(scheduler._engine, "handle_error", lambda context: errors.append(context.original_exception))
    with (
        structlog.testing.capture_logs() as said,
        ThreadPoolExecutor(1) as threads,
        control.engine.connect() as other,
    ):
        other.execute(text("SELECT FROM task_instance FOR UPDATE"))
        one_pass = threads.submit(scheduler.run_once)
        eventually(lambda: control.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
        other.execute(text("SELECT FROM dag_run FOR UPDATE"))  # who waited first is the victim
        other.rollback()
        one_pass.result(60)
        scheduler.run_once()
    assert [type(error) for error in errors] == [psycopg.errors.DeadlockDetected]
    assert not [entry for entry in said if entry["log_level"] != "info"], "it was taken for a fault of the run"
    assert control.states(run) == {"a": "queued", "b": "none"}
    assert control.sql("SELECT count(*) FROM wakeup") == [0]
