"""`@task`: a function that becomes a task where it is called."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar, Unpack, overload

from turnout.tasks.context import is_task_running
from turnout.tasks.declaring import current_dag
from turnout.tasks.errors import DagError
from turnout.tasks.linking import Linkable
from turnout.tasks.operator import OperatorArgs
from turnout.tasks.operator_meta import argument_names
from turnout.tasks.python import PythonOperator
from turnout.tasks.references import XComArg
from turnout.tasks.template_names import TEMPLATE_NAMES
from turnout.tasks.values import refuse_unknown

P = ParamSpec("P")
R = TypeVar("R")
Role = Callable[[XComArg], XComArg]


class TaskArgs(OperatorArgs, total=False):
    """The arguments of `@task`: those of every operator, and these."""

    task_id: str
    multiple_outputs: bool
    show_return_value_in_logs: bool


class PythonTask(PythonOperator):
    """The operator behind `@task`."""

    @property
    def operator_name(self) -> str:
        """The name of the operator for people."""
        return "@task"


class TaskFunction(Generic[P, R]):
    """A function with `@task`. Call it inside a DAG to declare a task; the call stands for its future result.

    Attributes:
        function: the function itself, for calling it as such.
    """

    __name__: str

    def __init__(self, function: Callable[P, R], arguments: Mapping[str, Any], role: Role | None = None) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._arguments = dict(arguments)
        self._role = role
        self._signature = _check_signature(function)

    def __call__(self, *args: Any, **kwargs: Any) -> XComArg:
        """Declare a task that calls the function with these arguments."""
        name = self.function.__name__
        if is_task_running() and current_dag() is None:
            raise DagError(
                f"The task function {name}() was called inside a running task: call {name}.function() instead."
            )
        dag = self._arguments.get("dag") or current_dag()
        if dag is None:
            raise DagError(
                f"The task function {name}() was called outside of a DAG: call it inside `with DAG(...)` or @dag."
            )
        doc_md = self.function.__doc__ and inspect.cleandoc(self.function.__doc__)
        given = {"task_id": name, "doc_md": doc_md, **self._arguments}
        given["task_id"] = _free_id(given["task_id"], dag.task_dict)
        self._check_call(given["task_id"], dag.dag_id, args, kwargs)
        result = PythonTask(python_callable=self.function, op_args=args, op_kwargs=kwargs, **given).output
        return result if self._role is None else self._role(result)

    def override(self, **arguments: Unpack[TaskArgs]) -> "TaskFunction[P, R]":
        """Return the same function with other task arguments, for one call: `load.override(task_id="again")()`."""
        return TaskFunction(self.function, {**self._arguments, **_check_arguments(arguments)}, self._role)

    def with_role(self, role: Role) -> "TaskFunction[P, R]":
        """Return the same function whose tasks are given a role: that of a setup, or of a teardown."""
        return TaskFunction(self.function, self._arguments, role)

    def _check_call(self, task_id: str, dag_id: str, args: Any, kwargs: Any) -> None:
        """Refuse a call that could not work when the task runs; context values need not be given."""
        parameters = list(self._signature.parameters)
        given = {*parameters[: len(args)], *kwargs}
        from_context = {name: None for name in parameters if name in TEMPLATE_NAMES and name not in given}
        try:
            self._signature.bind(*args, **from_context, **kwargs)
        except TypeError as error:
            name = self.function.__name__
            raise DagError(f"DAG {dag_id!r}, task {task_id!r}: the call of {name}() is wrong: {error}.") from None

    def _refuse_link(self, _other: object) -> NoReturn:
        name = self.function.__name__
        raise DagError(f"The task function {name} is linked without being called: write {name}().")

    __rshift__ = __lshift__ = __rrshift__ = __rlshift__ = _refuse_link


@overload
def task(function: Callable[P, R], /) -> TaskFunction[P, R]: ...
@overload
def task(**arguments: Unpack[TaskArgs]) -> Callable[[Callable[P, R]], TaskFunction[P, R]]: ...
def task(function: Callable[P, R] | None = None, /, **arguments: Any) -> Any:
    """Turn a function into a task function.

    Arguments of the function that have the name of a context value (`ds`, `ti`, `params`, …) receive it; texts that are
    given to the others are templates.

    Args:
        function: the function, when used without parentheses.
        arguments: as for `BaseOperator`; `task_id` is the function's name by default, with `__1`, `__2`, … when it is
            called again in the same DAG.
    """
    given = _check_arguments(arguments)
    if function is not None:
        return TaskFunction(function, given)
    return lambda decorated: TaskFunction(decorated, given)


def setup(function: "Callable[P, R] | TaskFunction[P, R]", /) -> TaskFunction[P, R]:
    """Turn a function, or a task function, into one whose tasks are setups.

    Args:
        function: with `@task` below this decorator when the task needs arguments.
    """
    return _as_task_function(function).with_role(lambda result: result.as_setup())


@overload
def teardown(function: "Callable[P, R] | TaskFunction[P, R]", /) -> TaskFunction[P, R]: ...
@overload
def teardown(
    *, setups: Linkable | Sequence[Linkable] | None = None, on_failure_fail_dagrun: bool = False
) -> "Callable[[Callable[P, R] | TaskFunction[P, R]], TaskFunction[P, R]]": ...
def teardown(
    function: Any = None,
    /,
    *,
    setups: Linkable | Sequence[Linkable] | None = None,
    on_failure_fail_dagrun: bool = False,
) -> Any:
    """Turn a function, or a task function, into one whose tasks are teardowns.

    Args:
        function: the function, when used without parentheses.
        setups: what the tasks clean up after; `as_teardown` says this of a single task.
        on_failure_fail_dagrun: whether the run fails with them.
    """

    def decorate(decorated: Any) -> Any:
        return _as_task_function(decorated).with_role(
            lambda result: result.as_teardown(setups=setups, on_failure_fail_dagrun=on_failure_fail_dagrun)
        )

    return decorate if function is None else decorate(function)


def _as_task_function(function: "Callable[P, R] | TaskFunction[P, R]") -> TaskFunction[P, R]:
    return function if isinstance(function, TaskFunction) else TaskFunction(function, {})


def _check_arguments(arguments: TaskArgs | Mapping[str, Any]) -> dict[str, Any]:
    refuse_unknown(arguments, argument_names(PythonTask), "@task")
    return dict(arguments)


def _check_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return how the function may be called."""
    if not inspect.isfunction(function):
        raise DagError(f"@task needs a function, not {function!r}.")
    signature = inspect.signature(function)
    for name, parameter in signature.parameters.items():
        if isinstance(parameter.default, list | dict | set | bytearray):
            raise DagError(
                f"The task function {function.__name__}() has a {type(parameter.default).__name__} as "
                f"default of {name!r}, which all attempts in a process would share: use None."
            )
    return signature


def _free_id(name: str, taken: Mapping[str, Any]) -> str:
    if name not in taken:
        return name
    number = 1
    while f"{name}__{number}" in taken:
        number += 1
    return f"{name}__{number}"
