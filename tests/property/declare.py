"""Random DAGs: as the model has them, and as their authors would write them."""

from datetime import timedelta

from hypothesis import strategies as st

from tests.property.graph import Dag, Task
from turnout.tasks import DAG, BashOperator, EmptyOperator
from turnout.tasks.trigger_rule import TriggerRule

POOLS = ("default_pool", "db", "api")
RULES = sorted(str(rule) for rule in TriggerRule)


@st.composite
def dags(draw: st.DrawFn, dag_id: str) -> Dag:
    """Draw a DAG."""
    names = [f"t{number}" for number in range(draw(st.integers(3, 7)))]
    limits = st.none() | st.integers(1, 2)
    dag = Dag(
        dag_id,
        {name: draw(tasks(name, names[:place])) for place, name in enumerate(names)},
        max_active_runs=draw(st.integers(1, 3)),
        max_active_tasks=draw(limits) or 16,
        fail_fast=draw(st.integers(0, 3)) == 3,
        has_timeout=draw(st.integers(0, 2)) == 2,
    )
    if dag.fail_fast:  # then no other rule makes sense
        for task in dag.tasks.values():
            task.rule = "all_success"
    if draw(st.booleans()):
        _add_setup(draw, dag, names)
    return dag


@st.composite
def tasks(draw: st.DrawFn, name: str, earlier: list[str]) -> Task:
    """Draw a task, most of whose arguments are the usual ones."""
    rarely = st.integers(0, 3).map(lambda number: number == 3)
    return Task(
        name,
        upstream=draw(st.sets(st.sampled_from(earlier), max_size=3)) if earlier else set(),
        rule="all_success" if draw(st.booleans()) else draw(st.sampled_from(RULES)),
        is_empty=draw(rarely),
        retries=draw(st.integers(0, 2)),
        retries_at_once=draw(st.booleans()),
        pools=draw(pool_slots()),
        weight=draw(st.integers(1, 3)),
        weight_rule=draw(st.sampled_from(("downstream", "upstream", "absolute"))),
        most_per_dag=draw(st.integers(1, 2)) if draw(rarely) else None,
        most_per_run=draw(st.integers(1, 2)) if draw(rarely) else None,
        depends_on_past=draw(rarely),
        waits_for_downstream=draw(rarely),
        is_mapped=draw(rarely),
    )


def pool_slots() -> st.SearchStrategy[dict[str, int]]:
    """Draw the slots that a task needs of one pool, or of two."""
    one = st.tuples(st.sampled_from(POOLS), st.integers(1, 2))
    return st.one_of(
        st.just({"default_pool": 1}),
        one.map(lambda given: dict([given])),
        st.lists(one, min_size=2, max_size=2, unique_by=lambda given: given[0]).map(dict),
    )


def _add_setup(draw: st.DrawFn, dag: Dag, names: list[str]) -> None:
    """Make a task a setup, and perhaps a later one its teardown."""
    first, last = sorted(draw(st.lists(st.sampled_from(range(len(names))), min_size=2, max_size=2, unique=True)))
    setup, teardown = dag.tasks[names[first]], dag.tasks[names[last]]
    setup.is_setup = True
    if draw(st.booleans()):
        teardown.teardown_of, teardown.rule = setup.name, "all_done_setup_success"
        teardown.fails_run = draw(st.booleans())
        teardown.upstream.add(setup.name)
    for name in dag.downstream(setup.name):
        if not dag.tasks[name].is_teardown:
            dag.tasks[name].rule = "all_success"


def write(dag: Dag) -> DAG:
    """Write a DAG as its author would."""
    with DAG(
        dag.dag_id,
        max_active_runs=dag.max_active_runs,
        max_active_tasks=dag.max_active_tasks,
        fail_fast=dag.fail_fast,
        dagrun_timeout=timedelta(hours=1) if dag.has_timeout else None,
    ) as written:
        made = {task.name: _write_task(task) for task in dag.tasks.values()}
        for task in dag.tasks.values():
            for other in task.upstream:
                made[other] >> made[task.name]
        for task in dag.tasks.values():
            if task.is_setup:
                made[task.name].as_setup()
            if task.teardown_of is not None:
                made[task.name].as_teardown(setups=made[task.teardown_of], on_failure_fail_dagrun=task.fails_run)
    written.validate()
    return written


def _write_task(task: Task) -> BashOperator | EmptyOperator:
    arguments = {
        "task_id": task.name,
        "trigger_rule": task.rule,
        "retries": task.retries,
        "retry_delay": timedelta(0) if task.retries_at_once else timedelta(hours=1),
        "pool": task.pools,
        "priority_weight": task.weight,
        "weight_rule": task.weight_rule,
        "max_active_tis_per_dag": task.most_per_dag,
        "max_active_tis_per_dagrun": task.most_per_run,
        "depends_on_past": task.depends_on_past,
        "wait_for_downstream": task.waits_for_downstream,
    }
    return EmptyOperator(**arguments) if task.is_empty else BashOperator(bash_command="true", **arguments)
