import random

from turnout.tasks import DAG, EmptyOperator
from turnout.tasks.serialization import serialize


def weights(dag: DAG) -> dict[str, int]:
    return {task_id: spec["priority_weight"] for task_id, spec in serialize(dag)["tasks"].items()}


def diamond(rule: str, **own: int) -> DAG:
    with DAG("diamond") as dag:
        a, b, c, d = (EmptyOperator(task_id=n, priority_weight=own.get(n, 1), weight_rule=rule) for n in "abcd")
        a >> [b, c] >> d
    return dag


def test_downstream_counts_every_task_that_comes_after_once() -> None:
    assert weights(diamond("downstream")) == {"a": 4, "b": 2, "c": 2, "d": 1}
    assert weights(diamond("downstream", d=10, b=5)) == {"a": 17, "b": 15, "c": 11, "d": 10}


def test_upstream_counts_every_task_that_comes_before_once() -> None:
    assert weights(diamond("upstream", a=3)) == {"a": 3, "b": 4, "c": 4, "d": 6}


def test_absolute_counts_only_the_task_itself() -> None:
    assert weights(diamond("absolute", b=7)) == {"a": 1, "b": 7, "c": 1, "d": 1}


def test_each_task_follows_its_own_rule() -> None:
    with DAG("mixed") as mixed:
        a = EmptyOperator(task_id="a")
        b = EmptyOperator(task_id="b", weight_rule="upstream", priority_weight=5)
        a >> b
    assert weights(mixed) == {"a": 6, "b": 6}


def test_weights_stay_within_32_bits() -> None:
    assert weights(diamond("downstream", a=2**31 - 1))["a"] == 2**31 - 1
    assert weights(diamond("downstream", a=-(2**31), d=-5))["a"] == -(2**31)


def test_weights_equal_a_plain_walk_of_the_graph() -> None:
    draw = random.Random(7)  # noqa: S311
    with DAG("random") as dag:
        tasks = [EmptyOperator(task_id=f"t{n}", priority_weight=draw.randint(-3, 9)) for n in range(60)]
        for position, task in enumerate(tasks):
            for other in draw.sample(tasks[position + 1 :], min(3, 59 - position)):
                task >> other

    def after(task_id: str) -> set[str]:
        found: set[str] = set()
        for other in dag.get_task(task_id).downstream_task_ids:
            found |= {other} | after(other)
        return found

    assert weights(dag) == {
        t.task_id: t.priority_weight + sum(dag.get_task(other).priority_weight for other in after(t.task_id))
        for t in tasks
    }
