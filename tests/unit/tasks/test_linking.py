from typing import Any

import pytest

from turnout.tasks import DAG, EmptyOperator, chain, task
from turnout.tasks.errors import DagError


@task
def produce() -> int:
    return 1


@task
def consume(value: int) -> int:
    return value


def tasks(*names: str) -> list[EmptyOperator]:
    with DAG("links"):
        return [EmptyOperator(task_id=name) for name in names]


def test_arrows_link_tasks_in_both_directions() -> None:
    a, b, c, d = tasks("a", "b", "c", "d")
    a >> [b, c] >> d
    assert (a.downstream_task_ids, d.upstream_task_ids) == ({"b", "c"}, {"b", "c"})
    e, f, g = tasks("e", "f", "g")
    e << [f, g]
    assert e.upstream_task_ids == {"f", "g"}


def test_a_list_may_stand_on_the_left() -> None:
    a, b, c = tasks("a", "b", "c")
    assert ([a, b] >> c) is c
    assert c.upstream_task_ids == {"a", "b"}
    d, e, f = tasks("d", "e", "f")
    [d, e] << f
    assert f.downstream_task_ids == {"d", "e"}


def test_chain_links_one_after_the_other_and_lists_one_to_one() -> None:
    a, b, c, d, e, f = tasks(*"abcdef")
    chain(a, [b, c], [d, e], f)
    assert a.downstream_task_ids == {"b", "c"}
    assert (b.downstream_task_ids, c.downstream_task_ids) == ({"d"}, {"e"})
    assert f.upstream_task_ids == {"d", "e"}


def test_chain_refuses_lists_of_different_lengths() -> None:
    a, b, c = tasks(*"abc")
    with pytest.raises(DagError, match="one has 1 tasks and the next 2"):
        chain([a], [b, c])


def test_a_result_that_is_handed_on_makes_a_dependency() -> None:
    with DAG("handed") as handed:
        first = produce()
        consume.override(task_id="direct")(first)
        consume.override(task_id="nested")({"rows": [first["rows"], 2]})
    assert handed.get_task("produce").downstream_task_ids == {"direct", "nested"}


def test_results_can_be_linked_like_tasks() -> None:
    with DAG("mixed") as mixed:
        end = EmptyOperator(task_id="end")
        produce() >> end
        [consume(1)] >> end
    assert mixed.get_task("end").upstream_task_ids == {"produce", "consume"}


def test_a_task_without_dag_joins_that_of_the_task_it_is_linked_to() -> None:
    alone = EmptyOperator(task_id="alone")
    (a,) = tasks("a")
    a >> alone
    assert alone.dag is a.dag
    with pytest.raises(DagError, match="Tasks 'x' and 'y' belong to no DAG"):
        EmptyOperator(task_id="x") >> EmptyOperator(task_id="y")


def test_tasks_of_two_dags_cannot_be_linked() -> None:
    with DAG("one"):
        a = EmptyOperator(task_id="a")
    with DAG("two"):
        b = EmptyOperator(task_id="b")
    with pytest.raises(DagError, match="Task 'a' of DAG 'one' and task 'b' of DAG 'two' cannot be linked"):
        a >> b


def test_a_task_cannot_come_after_itself() -> None:
    (a,) = tasks("a")
    with pytest.raises(DagError, match="DAG 'links': task 'a' cannot come after itself"):
        a >> a


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("b", "Only tasks can be linked, not str 'b'"),
        ([None], "Only tasks can be linked, not NoneType None"),
        (len, "the function 'len': decorate it with @task and call it"),
    ],
)
def test_what_is_no_task_cannot_be_linked(other: Any, words: str) -> None:
    (a,) = tasks("a")
    with pytest.raises(DagError, match=words):
        a >> other


def test_a_task_function_that_was_not_called_is_pointed_out() -> None:
    (a,) = tasks("a")
    with pytest.raises(DagError, match=r"The task function produce is linked without being called: write produce\(\)"):
        produce >> a
    with pytest.raises(DagError, match=r"produce"):
        a >> produce
    with pytest.raises(DagError, match=r"write produce\(\)"):
        [a] >> produce


def test_a_future_result_can_be_neither_looped_over_nor_tested() -> None:
    with DAG("future"):
        result = produce()
        with pytest.raises(DagError, match="cannot be looped over"):
            list(result)
        with pytest.raises(DagError, match="cannot be tested"):
            assert result
