"""`turnout tasks clear|mark|cancel`, `turnout runs clear|mark|cancel|delete` and `turnout dags delete`."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from turnout.metadata.states import Outcome, TaskState

Turnout = Callable[..., Any]

RUN = ("orders_daily", "r1")


@pytest.fixture
def run(turnout: Turnout, control_plane: Any, orders: Path) -> None:  # noqa: ARG001  the DAGs must be there
    """A run that failed: `extract` has, and `done` did not run."""
    turnout("dags", "trigger", *RUN[:1], "--run-id", RUN[1], "--logical-date", "2024-01-02")
    control_plane.start()
    control_plane.finish(control_plane.claim("extract"), TaskState.FAILED, Outcome.FAILED)
    with control_plane.engine.begin() as connection:
        connection.execute(text("UPDATE task_instance SET state = 'upstream_failed' WHERE task_id = 'done'"))
        connection.execute(text("UPDATE dag_run SET state = 'failed'"))


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sit at the terminal, and say something."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    return lambda said: monkeypatch.setattr(sys, "stdin", Terminal(said))


def states(engine: Engine) -> dict[str, str]:
    with engine.connect() as connection:
        rows = connection.execute(
            text("SELECT task_id, state FROM task_instance UNION ALL SELECT run_id, state FROM dag_run")
        )
        return {row[0]: row[1] for row in rows}


@pytest.mark.usefixtures("run")
def test_what_failed_is_cleared(turnout: Turnout, engine: Engine) -> None:
    ran = turnout("tasks", "clear", *RUN, "--only-failed", "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "DAG orders_daily, run r1:",
        "     1  run: failed -> queued",
        "     1  task done: upstream_failed -> none",
        "     1  task extract: failed -> none",
    ]
    assert states(engine) == {"extract": "none", "done": "none", "r1": "queued"}


@pytest.mark.usefixtures("run")
def test_a_change_is_told_as_json(turnout: Turnout) -> None:
    ran = turnout("tasks", "clear", *RUN, "-t", "extract", "-y", "-o", "json")
    whose = {"dag_id": "orders_daily", "dag_run_id": "r1"}
    assert ran.json == {
        "dag_runs": [{**whose, "state": "failed", "new_state": "queued"}],
        "task_instances": [{**whose, "task_id": "extract", "map_index": -1, "state": "failed", "new_state": "none"}],
    }


@pytest.mark.usefixtures("run")
def test_a_person_is_asked_before_anything_changes(
    turnout: Turnout, engine: Engine, answer: Callable[[str], None]
) -> None:
    before = states(engine)
    answer("n\n")
    ran = turnout("runs", "clear", *RUN)
    assert (ran.code, ran.out) == (1, "")
    assert "1  task extract: failed -> none" in ran.err
    assert ran.err.endswith("Go on? [y/N] Nothing was changed.\n")
    assert states(engine) == before
    answer("y\n")
    assert turnout("runs", "clear", *RUN).code == 0
    assert states(engine)["extract"] == "none"


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    "command",
    [
        ["tasks", "clear", *RUN],
        ["tasks", "mark", *RUN, "-t", "done", "--state", "success"],
        ["tasks", "cancel", *RUN, "-t", "done"],
        ["runs", "clear", *RUN],
        ["runs", "mark", *RUN, "--state", "success"],
        ["runs", "cancel", *RUN],
        ["runs", "delete", *RUN],
        ["dags", "delete", "orders_daily"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_without_a_terminal_nothing_changes_unless_yes_is_said(
    turnout: Turnout, engine: Engine, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    before = states(engine)
    ran = turnout(*command)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "Error: Nobody is here to ask: give --yes, or --dry-run to see what would change.\n"
    assert states(engine) == before


@pytest.mark.usefixtures("run")
def test_a_dry_run_says_what_would_change_and_changes_nothing(turnout: Turnout, engine: Engine) -> None:
    before = states(engine)
    assert "task extract: failed -> success" in turnout("runs", "mark", *RUN, "--state", "success", "--dry-run").out
    assert "1 run with 2 task instances" in turnout("runs", "delete", *RUN, "--dry-run", "--yes").out
    assert states(engine) == before


@pytest.mark.usefixtures("run")
def test_a_marked_task_lets_its_run_go_on(turnout: Turnout, engine: Engine) -> None:
    ran = turnout("tasks", "mark", *RUN, "-t", "extract", "--state", "success", "--yes")
    assert ran.code == 0
    assert states(engine) == {"extract": "success", "done": "none", "r1": "queued"}


@pytest.mark.usefixtures("run")
def test_runs_are_chosen_by_their_logical_dates(turnout: Turnout, engine: Engine) -> None:
    none = turnout("runs", "mark", "orders_daily", "-s", "2024-01-03", "--state", "success", "--yes")
    assert (none.code, none.out, none.err) == (0, "", "Nothing to change.\n")
    assert turnout("runs", "mark", "orders_daily", "-e", "2024-01-02", "--state", "success", "--yes").code == 0
    assert states(engine) == {"extract": "success", "done": "success", "r1": "success"}


@pytest.mark.usefixtures("orders")
def test_a_run_is_cancelled(turnout: Turnout, control_plane: Any, engine: Engine) -> None:
    turnout("dags", "trigger", *RUN[:1], "--run-id", RUN[1])
    control_plane.start()
    control_plane.claim("extract")
    assert turnout("runs", "cancel", *RUN, "--yes").code == 0
    assert states(engine) == {"extract": "failed", "done": "skipped", "r1": "failed"}
    log = turnout("tasks", "logs", *RUN, "extract").out
    assert "WARNING Ended from outside (cancelled). Cancelled by cli:" in log
    again = turnout("runs", "cancel", *RUN, "--yes")
    assert (again.code, again.err) == (1, "Error: Run r1 of DAG orders_daily has ended already: failed.\n")


@pytest.mark.usefixtures("orders")
def test_a_task_is_cancelled(turnout: Turnout, control_plane: Any, engine: Engine) -> None:
    turnout("dags", "trigger", *RUN[:1], "--run-id", RUN[1])
    control_plane.start()
    control_plane.claim("extract")
    assert turnout("tasks", "cancel", *RUN, "-t", "extract", "--yes").code == 0
    assert states(engine) == {"extract": "failed", "done": "none", "r1": "running"}


@pytest.mark.usefixtures("run")
def test_a_run_is_deleted(turnout: Turnout, engine: Engine) -> None:
    ran = turnout("runs", "delete", *RUN, "--yes")
    assert ran.out.splitlines() == ["DAG orders_daily, 1 run with 2 task instances: deleted", "        r1"]
    assert states(engine) == {}
    assert turnout("runs", "delete", *RUN, "--yes").code == 1


@pytest.mark.usefixtures("run")
def test_a_dag_is_deleted_once_no_file_declares_it(turnout: Turnout, engine: Engine) -> None:
    ran = turnout("dags", "delete", "orders_daily", "--yes")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "Error: DAG orders_daily is still declared by orders.py: take it out of there first.\n"
    with engine.begin() as connection:
        connection.execute(text("UPDATE dag SET is_active = false"))
    deleted = turnout("dags", "delete", "orders_daily", "--yes", "-o", "json")
    assert deleted.json == {"dag_id": "orders_daily", "dag_run_ids": ["r1"], "task_instances": 2}
    assert turnout("dags", "show", "orders_daily").code == 1


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["tasks", "clear", *RUN, "-t", "extrct"], 1, "Did you mean extract?"),
        (["tasks", "clear", "orders_daily"], 2, "Name a run of DAG orders_daily"),
        (["tasks", "mark", *RUN, "--state", "success"], 2, "Name the tasks to mark"),
        (["tasks", "cancel", *RUN], 2, "Name the tasks to cancel"),
        (["runs", "clear", "orders_daily", "r2"], 1, "There is no run of DAG orders_daily called r2"),
        (["runs", "clear", *RUN, "-s", "2024-01-01"], 2, "not both"),
        (["dags", "delete", "zzz"], 1, "There is no DAG zzz"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(turnout: Turnout, command: list[str], code: int, said: str) -> None:
    ran = turnout(*command, "--yes")
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1
