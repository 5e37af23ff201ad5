"""What happens around the constructor of every operator."""

import inspect
from abc import ABCMeta
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from turnout.tasks.declaring import caller, collecting, current_dag
from turnout.tasks.errors import DagError
from turnout.tasks.references import references_in

if TYPE_CHECKING:
    from turnout.tasks.dags import DAG
    from turnout.tasks.operator import BaseOperator


class OperatorMeta(ABCMeta):
    """Let operators take the DAG's `default_args`, join their DAG, and follow the tasks whose results they use."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Construct a task."""
        dag = kwargs.pop("dag", None) or current_dag()
        try:
            _check_use(cls, args)
            task = super().__call__(**_with_defaults(cls, kwargs, dag))
            _settle(task, dag)
        except DagError as error:
            raise DagError(f"{_subject(kwargs.get('task_id'), dag)}{error}") from None
        return task


def _check_use(operator: OperatorMeta, args: tuple[Any, ...]) -> None:
    name = operator.__name__
    if args:
        raise DagError(f"{name} takes its arguments by name: {name}(task_id=…, …).")
    if operator.__abstractmethods__:
        raise DagError(f"{name} has no execute(): write one, or use BashOperator or @task.")


@cache
def argument_names(operator: type) -> frozenset[str]:
    """Return the names of the arguments that an operator and its bases take."""
    return frozenset(parameter.name for constructor in _constructors(operator) for parameter in _named(constructor))


@cache
def _required_names(operator: type) -> tuple[str, ...]:
    own = [parameter.name for parameter in _named(_constructors(operator)[0]) if parameter.default is parameter.empty]
    return tuple(dict.fromkeys(["task_id", *own]))


def _constructors(operator: type) -> list[Any]:
    """Return `__init__` of an operator and its bases; the signature of the class would be that of its metaclass."""
    bases = [base for base in operator.__mro__ if base is not object]
    return [vars(base)["__init__"] for base in bases if "__init__" in vars(base)]


def _named(constructor: Any) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(constructor).parameters.values())[1:]
    return [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]


def _with_defaults(operator: OperatorMeta, given: Mapping[str, Any], dag: "DAG | None") -> dict[str, Any]:
    names = argument_names(operator)
    defaults = {} if dag is None else {key: value for key, value in dag.default_args.items() if key in names}
    arguments = {**defaults, **given}
    if missing := [name for name in _required_names(operator) if name not in arguments]:
        raise DagError(f"{operator.__name__} needs {' and '.join(missing)}.")
    return arguments


def _settle(task: "BaseOperator", dag: "DAG | None") -> None:
    if not hasattr(task, "task_id"):
        raise DagError(f"{type(task).__name__}.__init__ does not call super().__init__(**kwargs).")
    task.declared_at = caller()
    if dag is not None:
        dag.add_task(task)
    elif (declarations := collecting()) is not None:
        declarations.homeless_tasks.append(task)
    for name in task.rendered_fields:
        if not hasattr(task, name):
            raise DagError(f"{type(task).__name__} names {name!r} in template_fields, but has no such attribute.")
        for upstream in references_in(getattr(task, name)):
            task.set_upstream(upstream)


def _subject(task_id: object, dag: "DAG | None") -> str:
    where = f"DAG {dag.dag_id!r}, " if dag is not None else ""
    return f"{where}task {task_id!r}: " if task_id is not None else where and f"{where[:-2]}: "
