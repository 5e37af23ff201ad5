"""Stories: beginnings of an example that lead to what random steps seldom come by.

Each shapes a DAG, so that the story can happen in it, and then tells it; what follows is as random as ever.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tests.property.declare import POOLS
from tests.property.graph import Dag, Task

if TYPE_CHECKING:
    from tests.property.machine import LawMachine


class Story(NamedTuple):
    """What shapes the first DAG of an example, and what happens first."""

    shape: Callable[[Dag], None]
    tell: Callable[["LawMachine"], None]


def _untouched(dag: Dag) -> None:
    """Leave the DAG as it was drawn."""


def _nothing(machine: "LawMachine") -> None:
    """Tell nothing."""


def _with_retries(dag: Dag) -> None:
    for task in dag.tasks.values():
        task.retries, task.retries_at_once, task.pools = 1, True, {"default_pool": 1}
    _without_limits(dag)


def _lose_then_fail(machine: "LawMachine") -> None:
    """Lose an attempt, and let the next one fail: the retries of its author are still there."""
    machine.resize("default_pool", 4)
    machine.fill(0)
    if machine.model.instances("running"):
        machine.lose_and_end(0, "failed")


def _with_teardown(dag: Dag) -> None:
    names = list(dag.tasks)
    dag.tasks = {name: Task(name, retries=dag.tasks[name].retries) for name in names}
    dag.fail_fast = True
    _without_limits(dag)
    setup, teardown = dag.tasks[names[0]], dag.tasks[names[-1]]
    setup.is_setup = True
    for name in names[1:-1]:
        dag.tasks[name].upstream = {setup.name}
    teardown.teardown_of, teardown.rule = setup.name, "all_done_setup_success"
    teardown.upstream = set(names[:-1])


def _fail_fast(machine: "LawMachine") -> None:
    """Let a task fail in a DAG that fails fast, whose setup has succeeded: its teardown runs."""
    machine.resize("default_pool", 4)
    machine.fill(0)
    machine.work_off(["success"] * 3)
    machine.fill(0)
    machine.work_off(["failed_for_good"])
    machine.fill(0)


def _all_ready(dag: Dag) -> None:
    for number, name in enumerate(dag.tasks):
        task = dag.tasks[name]
        dag.tasks[name] = Task(name, pools={POOLS[number % len(POOLS)]: 1}, weight=task.weight, weight_rule="absolute")
    dag.fail_fast = False
    _without_limits(dag)


def _crowd(machine: "LawMachine") -> None:
    """Let more be ready in all pools than the workers can take: the order is one for all of them."""
    for pool in POOLS:
        machine.resize(pool, 3)
    machine.start()
    machine.decide(500)
    machine.queue(0, 2)
    machine.queue(0, 1)


def _lose_then_clear(machine: "LawMachine") -> None:
    """Lose an attempt, and clear its task: nothing is held against it any more."""
    machine.resize("default_pool", 4)
    machine.fill(0)
    machine.work_off(["lost"])
    run = next(iter(machine.model.runs.values()))
    machine.clear_tasks(run, set(run.dag.tasks))


def _lose_messages(machine: "LawMachine") -> None:
    """Let the broker forget all its messages: as many attempts are given back."""
    machine.resize("default_pool", 4)
    machine.run_once(0)
    machine.empty_the_broker()
    machine.pass_time()
    machine.reap(0)


def _one_run_at_a_time(dag: Dag) -> None:
    dag.max_active_runs = 1


def _urgent_run(machine: "LawMachine") -> None:
    """Trigger an urgent run after others: it starts first."""
    machine.trigger(0, 8, 5)
    machine.start()


def _big_one_second(dag: Dag) -> None:
    for number, name in enumerate(dag.tasks):
        dag.tasks[name] = Task(name, pools={"db": 2 if number == 1 else 1}, weight=9 - number, weight_rule="absolute")
    dag.fail_fast = False
    _without_limits(dag)


def _keep_slots(machine: "LawMachine") -> None:
    """Let a big task wait for one more slot: nobody overtakes it there."""
    machine.resize("db", 2)
    machine.run_once(0)


def _without_limits(dag: Dag) -> None:
    dag.max_active_tasks = 16
    for task in dag.tasks.values():
        task.most_per_dag = task.most_per_run = None


def _limited(dag: Dag) -> None:
    _all_ready(dag)
    for task in dag.tasks.values():
        task.most_per_dag = 1


def _fill(machine: "LawMachine") -> None:
    """Let two runs have tasks ready of which one at a time may run."""
    for pool in POOLS:
        machine.resize(pool, 4)
    machine.fill(0)


def _stale(machine: "LawMachine") -> None:
    """Let a message come after its attempt was given back, and the next one was queued."""
    machine.resize("default_pool", 4)
    machine.receive_stale(0)


STORIES = {
    "none": Story(_untouched, _nothing),
    "lose_then_fail": Story(_with_retries, _lose_then_fail),
    "fail_fast": Story(_with_teardown, _fail_fast),
    "crowd": Story(_all_ready, _crowd),
    "lose_then_clear": Story(_with_retries, _lose_then_clear),
    "lose_messages": Story(_with_retries, _lose_messages),
    "urgent_run": Story(_one_run_at_a_time, _urgent_run),
    "keep_slots": Story(_big_one_second, _keep_slots),
    "limited": Story(_limited, _fill),
    "stale": Story(_with_retries, _stale),
}
