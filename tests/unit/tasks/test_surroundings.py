"""Environment, folder and limits of a task, as authors ask for them."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from turnout.tasks import DAG, BashOperator, EmptyOperator, task
from turnout.tasks.errors import DagError
from turnout.tasks.operator import BaseOperator


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": ["A=1"]}, r"env must be a dict of names and texts, not \['A=1'\]\."),
        ({"env": {1: "1"}}, r"env must be a dict of names and texts"),
        ({"env": {"A": 1}}, r"env\['A'\] must be a text, not 1: write str\(…\) around it\."),
        ({"env": {"A=B": "1"}}, r"env\['A=B'\]: the name of a variable has no '='\."),
        ({"cwd": 7}, r"cwd must be a path, not 7\."),
        ({"memory_limit_mb": 0}, r"memory_limit_mb must be at least 1, not 0\."),
        ({"memory_limit_mb": "1G"}, r"memory_limit_mb must be a whole number, not '1G'"),
        ({"cpu_time_limit": 0}, r"cpu_time_limit must be above zero, not 0\."),
        ({"cpu_time_limit": "1h"}, r"cpu_time_limit must be a timedelta, not '1h'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_task(arguments: dict[str, Any], message: str) -> None:
    with DAG("d", schedule=None), pytest.raises(DagError, match=rf"^DAG 'd', task 't': {message}"):
        EmptyOperator(task_id="t", **arguments)


def test_default_args_may_have_them() -> None:
    with DAG("d", schedule=None, default_args={"env": {"A": "1"}, "cpu_time_limit": 90, "cwd": Path("/srv")}):
        made: BaseOperator = EmptyOperator(task_id="t")
    assert (made.env, made.cwd, made.cpu_time_limit) == ({"A": "1"}, "/srv", timedelta(seconds=90))


def test_a_trial_sets_them_for_the_task_and_puts_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_KEPT", "as it was")
    with DAG("d", schedule=None) as dag:

        @task
        def name() -> str:
            return "ann"

        @task(cwd=str(tmp_path), env={"OWN_NAME": "{{ ti.task_id }}", "OWN_KEPT": "changed", "OWN_GIVEN": name()})
        def look() -> list[str]:
            os.environ["OWN_MORE"] = "more"
            return [str(Path.cwd()), *(os.environ[f"OWN_{key}"] for key in ("NAME", "KEPT", "GIVEN"))]

        look()
    folder = Path.cwd()
    result = dag.test()
    assert result.results["look"] == [str(tmp_path), "look", "changed", "ann"]
    assert dag.get_task("look").upstream_task_ids == {"name"}
    assert Path.cwd() == folder
    assert os.environ["OWN_KEPT"] == "as it was"
    assert {"OWN_NAME", "OWN_GIVEN", "OWN_MORE"} & set(os.environ) == set()


def test_a_variable_that_cannot_be_set_fails_the_task_by_name() -> None:
    with DAG("d", schedule=None) as dag:
        BashOperator(task_id="t", bash_command="true", env={"A": r"{{ 'a\0b' }}"})
    assert dag.test().errors == {"t": "The environment variable 'A' cannot be set (env): embedded null byte."}
