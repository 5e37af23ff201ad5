from typing import Any

import pytest

from turnout.tasks import DAG, XComArg, task
from turnout.tasks.errors import DagError


@task
def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


def test_calling_a_task_function_declares_a_task_named_for_it() -> None:
    with DAG("sums") as sums:
        result = add(1, right=2)
    assert isinstance(result, XComArg)
    assert sums.task_ids == ["add"]
    assert (sums.get_task("add").doc_md, sums.get_task("add").operator_name) == ("Add two numbers.", "@task")


def test_calling_it_again_numbers_the_tasks_as_airflow_does() -> None:
    with DAG("sums") as sums:
        add(add(add(1, 2), 3), 4)
    assert sums.task_ids == ["add", "add__1", "add__2"]


def test_arguments_of_the_decorator_and_of_override_reach_the_task() -> None:
    @task(task_id="sum", retries=2, queue="gpu")
    def compute() -> None: ...

    with DAG("sums") as sums:
        compute()
        compute.override(task_id="again", retries=5)()
    assert [(t.task_id, t.retries, t.queue) for t in sums.tasks] == [("sum", 2, "gpu"), ("again", 5, "gpu")]


def test_the_function_itself_stays_callable() -> None:
    assert add.function(1, 2) == 3
    assert add.__name__ == "add"


def test_results_are_handed_on_with_their_items(run: Any) -> None:
    with DAG("sums") as sums:
        first = add(1, 2)
        add(first, first["rows"][0])
    second = sums.get_task("add__1")
    assert run(second, {"add": 3}).error == "The result of task 'add' has no item 'rows': it is 3."
    assert run(second, {}).error == "Task 'add' returned no value, so there is no <result of add['rows'][0]> to use."


def test_context_values_need_not_be_given_even_when_they_stand_first(run: Any) -> None:
    @task
    def report(ds: str, limit: int, ti: Any = None, logical_date: Any = None) -> list[Any]:
        return [ds, limit, ti.task_id, str(logical_date)]

    with DAG("context") as context:
        report(limit=3)
    done = run(context.get_task("report"))
    assert done.return_value == '["2013-01-01", 3, "report", "2013-01-01 00:00:00+00:00"]'
    with DAG("positional") as positional:
        report("today", 3)
    assert run(positional.get_task("report")).return_value.startswith('["today", 3, "report"')
    undated = run(context.get_task("report"), logical_date=None)
    assert undated.return_value == '[null, 3, "report", "None"]'


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: add(1),
            r"DAG 'calls', task 'add': the call of add\(\) is wrong: missing a required argument: 'right'",
        ),
        (lambda: add(1, 2, 3), r"the call of add\(\) is wrong: too many positional arguments"),
        (lambda: add(1, rigth=2), r"the call of add\(\) is wrong"),
    ],
)
def test_a_wrong_call_is_refused_where_it_stands(call: Any, words: str) -> None:
    with DAG("calls"), pytest.raises(DagError, match=words):
        call()


def test_a_call_outside_of_a_dag_is_refused() -> None:
    with pytest.raises(DagError, match=r"The task function add\(\) was called outside of a DAG"):
        add(1, 2)


def test_a_call_inside_a_running_task_is_refused(run: Any) -> None:
    @task
    def outer() -> None:
        add(1, 2)

    with DAG("nested") as nested:
        outer()
    assert "call add.function() instead" in run(nested.get_task("outer")).error


def test_a_mutable_default_is_refused() -> None:
    with pytest.raises(DagError, match=r"The task function gather\(\) has a list as default of 'rows'.*use None"):

        @task
        def gather(rows: list[int] = []) -> None: ...  # noqa: B006


def test_a_wrong_argument_of_the_decorator_is_refused() -> None:
    with pytest.raises(DagError, match="@task has no argument 'retires': did you mean 'retries'"):
        task(retires=2)  # type: ignore[call-overload]


def test_what_is_no_function_cannot_be_decorated() -> None:
    with pytest.raises(DagError, match="@task needs a function"):
        task(3)  # type: ignore[call-overload]


def test_an_async_function_is_refused_until_it_is_supported(run: Any) -> None:
    @task
    async def fetch() -> None: ...

    with DAG("async") as unsupported:
        fetch()
    assert "calls an async function, which is not supported yet" in run(unsupported.get_task("fetch")).error


def test_multiple_outputs_need_a_dict(run: Any) -> None:
    @task(multiple_outputs=True)
    def split() -> Any:
        return [1]

    with DAG("split") as dag:
        split()
    assert "must return a dict, not [1]" in run(dag.get_task("split")).error
