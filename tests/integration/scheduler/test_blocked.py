"""Ten thousand blocked task instances cost nothing: what a pass reads follows what changed, not what waits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, event, text

from tests.control import BATCH, Control, graph
from turnout.metadata.timers import seconds_until_next_due
from turnout.scheduler.create_runs import create_due_runs
from turnout.scheduler.decide import decide
from turnout.scheduler.queue import queue_ready
from turnout.scheduler.start_runs import start_runs

BLOCKED = 10_000
#: A few of everything; a pass that looks at what is blocked reads thousands.
MOST_ROWS, MOST_STATEMENTS = 40, 25
_ROWS_READ = text("""
    SELECT sum(COALESCE(seq_tup_read, 0) + COALESCE(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables
    WHERE relname IN ('task_instance', 'dag_run', 'wakeup', 'task_attempt', 'xcom')
""")


@dataclass
class Cost:
    """What a pass read and said."""

    rows: int = 0
    statements: int = 0


def one_pass(control: Control) -> Cost:
    """Run every step, each in its transaction, as a scheduler does."""
    cost = Cost()
    steps: tuple[Callable[[Connection], Any], ...] = (
        lambda c: create_due_runs(c, BATCH),
        lambda c: start_runs(c, BATCH),
        lambda c: decide(c, control.versions, BATCH),
        lambda c: queue_ready(c, control.scheduler_id, BATCH),
        seconds_until_next_due,
    )
    for step in steps:
        with counted(control, cost), control.engine.begin() as connection:
            before = int(connection.scalar(_ROWS_READ) or 0)  # what the session has read and not yet reported
            step(connection)
            cost.rows += int(connection.scalar(_ROWS_READ) or 0) - before
    cost.statements -= 2 * len(steps)  # those that ask for the rows
    return cost


@contextmanager
def counted(control: Control, cost: Cost) -> Iterator[None]:
    """Count the statements."""

    def note(*_: Any) -> None:
        cost.statements += 1

    event.listen(control.engine, "before_cursor_execute", note)
    try:
        yield
    finally:
        event.remove(control.engine, "before_cursor_execute", note)


def test_what_a_pass_costs_does_not_depend_on_what_is_blocked(control: Control) -> None:
    """Ten thousand tasks wait for one that runs; beside it the first of a chain of three ends."""
    blocked: dict[str, list[str]] = {f"t{number}": ["hub"] for number in range(BLOCKED)}
    run = control.prepare(graph("crowd", {"hub": [], **blocked, "a": [], "b": ["a"], "c": ["b"]}))
    control.sql("ANALYZE")
    worker = control.worker()
    claimed = {each.task_id: each for each in control.claim(control.queue().messages, worker)}
    assert set(claimed) == {"hub", "a"}
    idle = one_pass(control)
    control.finish([claimed["a"].key])
    busy = one_pass(control)
    assert control.states(run)["b"] == "queued"
    assert max(idle.rows, busy.rows) <= MOST_ROWS
    assert max(idle.statements, busy.statements) <= MOST_STATEMENTS

    control.sql("INSERT INTO wakeup (dag_run_id) VALUES (:run)", run=run)
    assert one_pass(control).rows > BLOCKED  # so the measure does see a pass that looks at all of a run
