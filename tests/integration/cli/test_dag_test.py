"""`turnout dags test`: one run of a DAG without servers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Turnout = Callable[..., Any]

FAILING = """
from turnout.tasks import DAG, BashOperator, EmptyOperator

with DAG("failing"):
    BashOperator(task_id="bad", bash_command="exit 3") >> EmptyOperator(task_id="after")
"""


@pytest.fixture
def no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNOUT_DATABASE_URL", "postgresql://root@127.0.0.1:1/nowhere")


@pytest.mark.usefixtures("orders", "no_database")
def test_a_dag_of_the_dags_folder_runs_without_a_database(process: Turnout) -> None:
    ran = process("dags", "test", "orders_daily")
    assert ran.code == 0
    assert "hello" in ran.out
    assert "extract  success" in ran.out


@pytest.mark.usefixtures("orders", "no_database")
def test_json_has_standard_output_to_itself(process: Turnout) -> None:
    ran = process(
        "dags", "test", "orders_daily", "-o", "json", "--logical-date", "2024-01-05", "--conf", '{"limit": 1}'
    )
    assert ran.json == {
        "dag_id": "orders_daily",
        "state": "success",
        "tasks": {"extract": "success", "done": "success"},
        "errors": {},
    }
    assert "hello" in ran.err


@pytest.mark.usefixtures("no_database")
def test_a_failure_exits_with_1_and_says_why(turnout: Turnout, tmp_path: Path) -> None:
    path = tmp_path / "failing.py"
    path.write_text(FAILING)
    ran = turnout("dags", "test", str(path), "-o", "json")
    assert ran.code == 1
    assert ran.json["tasks"] == {"bad": "failed", "after": "upstream_failed"}
    assert "3" in ran.json["errors"]["bad"]


@pytest.mark.usefixtures("no_database")
def test_a_file_with_several_dags_asks_which(turnout: Turnout, orders: Path) -> None:
    ran = turnout("dags", "test", str(orders))
    assert ran.code == 2
    assert "declares the DAGs orders_daily, by_hand: choose one with --dag-id." in ran.err
    assert turnout("dags", "test", str(orders), "--dag-id", "by_hand").code == 0


@pytest.mark.usefixtures("no_database")
def test_a_broken_file_names_its_line(turnout: Turnout, tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("from turnout.tasks import dag\n\nundefined\n")
    ran = turnout("dags", "test", str(path))
    assert ran.code == 1
    assert ran.err == f"Error: {path}, line 3: NameError: name 'undefined' is not defined\n"


@pytest.mark.usefixtures("no_database")
def test_a_broken_file_beside_it_hides_no_dag(turnout: Turnout, orders: Path) -> None:
    (orders.parent / "aaa.py").write_text("# turnout dag by_hand\nraise RuntimeError('boom')\n")
    ran = turnout("dags", "test", "by_hand")
    assert ran.code == 0
    assert "Passed over" in ran.err
