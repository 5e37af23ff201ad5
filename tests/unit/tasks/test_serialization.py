import enum
import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.tasks import DAG, BashOperator, EmptyOperator, PythonOperator, task
from turnout.tasks.errors import DagError
from turnout.tasks.loading import load_file
from turnout.tasks.serialization import as_json, content_hash, serialize

SOURCE = """
from datetime import datetime
from turnout.tasks import DAG, BashOperator, PythonOperator, task

class Thing:
    pass

with DAG("stable", schedule="@daily", start_date=datetime(2013, 1, 1), tags={"c", "a", "b"}, params={"x": 1, "a": 2}):
    first = BashOperator(task_id="first", bash_command="echo", env={"B": "1", "A": "2"})
    many = [BashOperator(task_id=name, bash_command="true") for name in ("b", "c", "a")]
    last = PythonOperator(
        task_id="last",
        python_callable=print,
        op_args=[{"x", "y", "z"}, frozenset(range(20)), Thing(), print, lambda: 1, Thing],
        op_kwargs={"k": {("a", 1), ("b", 2)}},
    )
    first >> many >> last
"""


def test_the_content_says_all_that_schedulers_decide_from() -> None:
    with DAG(
        "full", schedule="@daily", start_date=datetime(2013, 1, 1, tzinfo=UTC), tags=["b", "a"], doc_md="Docs"
    ) as full:
        first = BashOperator(
            task_id="first",
            bash_command="echo {{ ds }}",
            retries=2,
            retry_delay=timedelta(seconds=30),
            retry_exponential_backoff=True,
            max_retry_delay=timedelta(minutes=10),
            execution_timeout=timedelta(hours=1),
            memory_limit_mb=512,
            cpu_time_limit=90,
            pool="etl",
            pool_slots=2,
            queue="gpu",
            owner="ann",
        )
        first >> EmptyOperator(task_id="last")
    content = serialize(full)
    assert {key: content[key] for key in content if key != "tasks"} == {
        "format": 1,
        "dag_id": "full",
        "description": None,
        "doc_md": "Docs",
        "owner": "ann, turnout",
        "schedule": {"type": "cron", "expression": "0 0 * * *", "timezone": "UTC"},
        "start_date": "2013-01-01T00:00:00+00:00",
        "end_date": None,
        "catchup": "latest",
        "jitter_s": None,
        "tags": ["a", "b"],
        "params": {},
        "max_active_runs": 16,
        "max_active_tasks": 16,
        "max_consecutive_failed_dag_runs": 0,
        "dagrun_timeout_s": None,
        "fail_fast": False,
        "is_paused_upon_creation": None,
        "callbacks": [],
    }
    assert content["tasks"]["first"] == {
        "operator": "BashOperator",
        "sends_to_worker": True,
        "downstream": ["last"],
        "upstream": [],
        "trigger_rule": "all_success",
        "is_setup": False,
        "is_teardown": False,
        "on_failure_fail_dagrun": False,
        "setups": [],
        "setup_for": [],
        "retries": 2,
        "retry_delay_s": 30.0,
        "retry_exponential_backoff": 2.0,
        "max_retry_delay_s": 600.0,
        "execution_timeout_s": 3600.0,
        "memory_limit_mb": 512,
        "cpu_time_limit_s": 90.0,
        "pool": "etl",
        "pool_slots": 2,
        "extra_pools": None,
        "max_active_tis_per_dag": None,
        "max_active_tis_per_dagrun": None,
        "depends_on_past": False,
        "wait_for_downstream": False,
        "queue": "gpu",
        "priority_weight": 2,
        "callbacks": [],
        "owner": "ann",
        "doc_md": None,
        "fields": {"bash_command": "echo {{ ds }}"},
    }
    assert content["tasks"]["last"]["sends_to_worker"] is False
    assert json.loads(json.dumps(content)) == content


def test_results_and_params_are_written_as_references() -> None:
    @task
    def pass_on(value: Any) -> Any:
        return value

    with DAG("refs") as refs:
        pass_on(pass_on(1)["a"])
    assert serialize(refs)["tasks"]["pass_on__1"]["fields"]["op_args"] == [{"xcom": "pass_on", "path": ["a"]}]


def test_the_hash_is_the_same_in_every_process_and_place(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from turnout.tasks.loading import load_file\n"
        "from turnout.tasks.serialization import content_hash, serialize\n"
        "print(content_hash(serialize(*load_file(pathlib.Path(sys.argv[1])))))"
    )
    hashes = set()
    for seed in ("0", "1", "4242"):
        folder = tmp_path / f"place-{seed}"
        folder.mkdir()
        (folder / f"file_{seed}.py").write_text(SOURCE)
        command = [sys.executable, "-c", code, str(folder / f"file_{seed}.py")]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        hashes.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(hashes) == 1


def test_the_hash_changes_with_the_content(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.py"
    hashes = set()
    for source in (SOURCE, SOURCE.replace('"true"', '"false"'), SOURCE.replace("first >> many", "many")):
        path.write_text(source)
        hashes.add(content_hash(serialize(*load_file(path))))
    assert len(hashes) == 3


@given(st.dictionaries(st.text(), st.integers() | st.frozensets(st.text())), st.randoms())
def test_order_makes_no_difference(value: dict[str, Any], random: Any) -> None:
    items = list(value.items())
    random.shuffle(items)
    shuffled = {key: set(random.sample(sorted(v), len(v))) if isinstance(v, frozenset) else v for key, v in items}
    assert content_hash(as_json(shuffled)) == content_hash(as_json(value))


class Colour(enum.Enum):
    RED = "red"


class Thing:
    pass


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Colour.RED, "red"),
        (date(2013, 1, 1), "2013-01-01"),
        (datetime(2013, 1, 1, tzinfo=UTC), "2013-01-01T00:00:00+00:00"),
        (timedelta(minutes=1), 60.0),
        (float("inf"), "inf"),
        ((1, [2.5, None, True]), [1, [2.5, None, True]]),
        ({1: {"b", "a"}}, {"1": ["a", "b"]}),
        (len, "<len>"),
        ("a\x00\ud800", "a\ufffd?"),
        (Mute(), "<Mute>"),
    ],
)
def test_values_are_written_by_their_meaning(value: Any, written: Any) -> None:
    assert as_json(value) == written


def test_values_are_written_without_addresses() -> None:
    assert as_json(Thing()) == as_json(Thing())
    assert "0x" not in as_json(Thing())


def test_nothing_in_a_dag_holds_what_the_database_cannot() -> None:
    odd = "a\x00\ud800"
    with DAG("odd", description=odd, doc_md=odd, tags=[odd], params={"a": 1}) as odd_dag:
        BashOperator(task_id="a", bash_command=odd, owner=odd, doc_md=odd, env={odd: odd})
    written = json.dumps(serialize(odd_dag))
    assert "\\u0000" not in written
    assert "\\ud800" not in written


def test_a_cycle_cannot_be_serialized() -> None:
    with DAG("round") as rounded:
        a, b = EmptyOperator(task_id="a"), EmptyOperator(task_id="b")
        a >> b >> a
    with pytest.raises(DagError, match="DAG 'round' has a cycle"):
        serialize(rounded)


def test_a_callable_that_is_no_field_is_left_out() -> None:
    with DAG("call") as call:
        PythonOperator(task_id="x", python_callable=print)
    assert serialize(call)["tasks"]["x"]["fields"] == {"op_args": [], "op_kwargs": {}}
