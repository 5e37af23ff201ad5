"""Setups and teardowns: tasks that prepare what others need, and those that clean up after them."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from turnout.tasks.errors import DagError
from turnout.tasks.trigger_rule import TriggerRule

if TYPE_CHECKING:
    from turnout.tasks.dags import DAG
    from turnout.tasks.operator import BaseOperator


def make_setup(task: "BaseOperator") -> None:
    """Make a task a setup.

    Raises:
        DagError: it is a teardown.
    """
    if task.is_teardown:
        raise DagError(f"{_name(task)} is a teardown: it cannot be a setup as well. Declare two tasks.")
    task.is_setup = True


def make_teardown(task: "BaseOperator", setups: "Iterable[BaseOperator]", *, on_failure_fail_dagrun: bool) -> None:
    """Make a task the teardown of some setups; it comes after them.

    Raises:
        DagError: it is a setup, or has a trigger rule of its own.
    """
    if task.is_setup:
        raise DagError(f"{_name(task)} is a setup: it cannot be a teardown as well. Declare two tasks.")
    if task.trigger_rule not in (TriggerRule.ALL_SUCCESS, TriggerRule.ALL_DONE_SETUP_SUCCESS):
        raise DagError(
            f"{_name(task)} has trigger_rule {str(task.trigger_rule)!r}, but a teardown always runs by "
            f"{str(TriggerRule.ALL_DONE_SETUP_SUCCESS)!r}: give it that one."
        )
    task.is_teardown = True
    task.on_failure_fail_dagrun = on_failure_fail_dagrun
    task.trigger_rule = TriggerRule.ALL_DONE_SETUP_SUCCESS
    for setup in setups:
        make_setup(setup)
        setup.set_downstream(task)


def check_setups(dag: "DAG") -> None:
    """Check that what follows a setup at once depends on its success.

    Raises:
        DagError: a task does not.
    """
    for setup in (task for task in dag.tasks if task.is_setup):
        for task in (dag.task_dict[task_id] for task_id in sorted(setup.downstream_task_ids)):
            if not task.is_teardown and task.trigger_rule is not TriggerRule.ALL_SUCCESS:
                raise DagError(
                    f"DAG {dag.dag_id!r}: task {task.task_id!r} comes directly after the setup {setup.task_id!r}, so "
                    f"its trigger_rule must be 'all_success', not {str(task.trigger_rule)!r}. "
                    "Change it, or put a task between them."
                )


def tasks_behind_setups(tasks: "Mapping[str, BaseOperator]") -> dict[str, set[str]]:
    """For each setup, name the tasks that run only if it succeeds, without following it directly.

    These are the tasks between it and its teardowns; all that come after it when it has none. A teardown is none of
    them: it has its own rule.
    """
    return {task_id: _behind(task, tasks) for task_id, task in tasks.items() if task.is_setup}


def _behind(setup: "BaseOperator", tasks: "Mapping[str, BaseOperator]") -> set[str]:
    covered = _reach(setup.downstream_task_ids, lambda task_id: tasks[task_id].downstream_task_ids)
    teardowns = {task_id for task_id in setup.downstream_task_ids if tasks[task_id].is_teardown}
    if teardowns:
        covered &= _reach(teardowns, lambda task_id: tasks[task_id].upstream_task_ids)
    return {task_id for task_id in covered - setup.downstream_task_ids if not tasks[task_id].is_teardown}


def _reach(start: Iterable[str], neighbours: Callable[[str], Iterable[str]]) -> set[str]:
    found, unseen = set(start), list(start)
    while unseen:
        new = set(neighbours(unseen.pop())) - found
        found |= new
        unseen += new
    return found


def _name(task: "BaseOperator") -> str:
    where = f"DAG {task.dag_id!r}, task" if task.dag is not None else "Task"
    return f"{where} {task.task_id!r}"
