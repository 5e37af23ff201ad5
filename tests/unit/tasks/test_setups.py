"""Setups and teardowns as authors declare them."""

from typing import Any

import pytest

from turnout.tasks import DAG, EmptyOperator, TriggerRule, setup, task, teardown
from turnout.tasks.errors import DagError
from turnout.tasks.serialization import serialize


def tasks(*names: str) -> list[EmptyOperator]:
    return [EmptyOperator(task_id=name) for name in names]


def test_a_teardown_has_its_own_rule_and_comes_after_its_setups_which_it_makes_such() -> None:
    with DAG("d") as dag:
        up, work, down = tasks("up", "work", "down")
        assert down.as_teardown(setups=up) is down
        up >> work >> down
    assert (up.is_setup, up.is_teardown, down.is_setup, down.is_teardown) == (True, False, False, True)
    assert down.trigger_rule is TriggerRule.ALL_DONE_SETUP_SUCCESS
    assert down.upstream_task_ids == {"up", "work"}
    assert not down.on_failure_fail_dagrun
    dag.validate()


def test_results_of_task_functions_can_be_setups_and_teardowns() -> None:
    with DAG("d") as dag:

        @task
        def make() -> str:
            return "x"

        @task
        def remove(name: str) -> None: ...

        made = make().as_setup()
        remove(made).as_teardown(setups=[made], on_failure_fail_dagrun=True)
    assert dag.get_task("make").is_setup
    assert dag.get_task("remove").is_teardown
    assert dag.get_task("remove").on_failure_fail_dagrun


def test_the_decorators_say_it_for_every_task_that_a_function_declares() -> None:
    with DAG("d") as dag:

        @setup
        def up() -> str:
            """Prepare."""
            return "x"

        @setup
        @task(retries=2)
        def careful() -> None: ...

        first, second = up(), careful.override(task_id="again")()

        @teardown(setups=[first, second], on_failure_fail_dagrun=True)
        def down(name: str) -> None: ...

        @teardown
        def alone() -> None: ...

        down(first)
        alone()
    assert [t.task_id for t in dag.tasks if t.is_setup] == ["up", "again"]
    assert dag.get_task("again").retries == 2
    assert [t.task_id for t in dag.tasks if t.is_teardown] == ["down", "alone"]
    assert dag.get_task("down").upstream_task_ids == {"up", "again"}
    assert [t.on_failure_fail_dagrun for t in dag.tasks] == [False, False, True, False]
    assert dag.get_task("up").doc_md == "Prepare."


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda a, _: a.as_setup().as_teardown(), "task 'a' is a setup: it cannot be a teardown as well"),
        (lambda a, _: a.as_teardown().as_setup(), "task 'a' is a teardown: it cannot be a setup as well"),
        (lambda a, b: a.as_teardown(setups=b.as_teardown()), "task 'b' is a teardown: it cannot be a setup as well"),
        (lambda a, _: a.as_teardown(setups="up"), "Only tasks can be linked, not str 'up'"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_task_and_the_remedy(declare: Any, words: str) -> None:
    with DAG("d"), pytest.raises(DagError, match=words):
        declare(*tasks("a", "b"))


def test_a_teardown_cannot_have_a_rule_of_its_own() -> None:
    with DAG("d"):
        down = EmptyOperator(task_id="down", trigger_rule="all_done")
        with pytest.raises(DagError, match="task 'down' has trigger_rule 'all_done', but a teardown always runs by"):
            down.as_teardown()
        EmptyOperator(task_id="fine", trigger_rule="all_done_setup_success").as_teardown()


def test_what_directly_follows_a_setup_depends_on_its_success() -> None:
    with DAG("d") as dag:
        up = EmptyOperator(task_id="up").as_setup()
        up >> EmptyOperator(task_id="work", trigger_rule="all_done")
    with pytest.raises(DagError, match="task 'work' comes directly after the setup 'up', so its trigger_rule must be"):
        dag.validate()


def test_fail_fast_allows_all_success_and_teardowns_only() -> None:
    with DAG("d", fail_fast=True) as dag:
        up, work, down = tasks("up", "work", "down")
        up >> work >> down.as_teardown(setups=up)
        dag.validate()
        work >> EmptyOperator(task_id="handler", trigger_rule="one_failed")
    with pytest.raises(DagError, match=r"DAG 'd': fail_fast ends .* task 'handler' could never run by .* 'one_failed'"):
        dag.validate()


def test_the_content_says_which_tasks_lie_behind_a_setup() -> None:
    with DAG("d") as dag:
        up, one, two, three, down, after, other = tasks("up", "one", "two", "three", "down", "after", "other")
        up >> one >> two >> three >> down.as_teardown(setups=up) >> after
        one >> other
    content = serialize(dag)["tasks"]
    assert content["up"]["setup_for"] == ["three", "two"]
    assert {name: task["setups"] for name, task in content.items() if task["setups"]} == {
        "two": ["up"],
        "three": ["up"],
    }
    assert {key: content["down"][key] for key in ("is_setup", "is_teardown", "on_failure_fail_dagrun")} == {
        "is_setup": False,
        "is_teardown": True,
        "on_failure_fail_dagrun": False,
    }


def test_a_setup_without_teardown_is_one_for_all_that_comes_after_it() -> None:
    with DAG("d") as dag:
        up, one, two, three, apart = tasks("up", "one", "two", "three", "apart")
        up.as_setup() >> one >> [two, three]
        apart >> three
    assert serialize(dag)["tasks"]["up"]["setup_for"] == ["three", "two"]
