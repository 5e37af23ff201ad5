"""Tasks that call a Python function."""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from turnout.tasks.errors import DagError, XComError
from turnout.tasks.operator import BaseOperator, OperatorArgs
from turnout.tasks.template_names import TEMPLATE_NAMES

if TYPE_CHECKING:
    from turnout.tasks.context import Context

_log = logging.getLogger("turnout.task")


class PythonOperator(BaseOperator):
    """A task that calls a function. `@task` is the shorter way.

    An argument of the function that has the name of a context value (`ds`, `ti`, `params`, …) receives it.

    Args:
        python_callable: the function.
        op_args: its positional arguments; texts in them are templates.
        op_kwargs: its arguments by name; texts in them are templates.
        show_return_value_in_logs: whether the result is logged.
        multiple_outputs: whether the result must be a dict, whose items other tasks take one by one.
        kwargs: as for `BaseOperator`.
    """

    template_fields: ClassVar[Sequence[str]] = ("op_args", "op_kwargs")

    def __init__(
        self,
        *,
        task_id: str,
        python_callable: Callable[..., Any],
        op_args: Sequence[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        show_return_value_in_logs: bool = True,
        multiple_outputs: bool = False,
        **kwargs: Unpack[OperatorArgs],
    ) -> None:
        super().__init__(task_id=task_id, **kwargs)
        if not callable(python_callable):
            raise DagError(f"python_callable must be a function, not {python_callable!r}.")
        self.python_callable = python_callable
        self.op_args = list(op_args or ())
        self.op_kwargs = dict(op_kwargs or {})
        self.show_return_value_in_logs = show_return_value_in_logs
        self.multiple_outputs = multiple_outputs

    def execute(self, context: "Context") -> Any:
        """Call the function."""
        value = self.python_callable(*self.op_args, **self._keywords(context))
        if inspect.iscoroutine(value):
            value.close()
            raise DagError(
                f"Task {self.task_id!r} calls an async function, which is not supported yet: use asyncio.run()."
            )
        if self.multiple_outputs and not isinstance(value, dict):
            raise XComError(
                f"Task {self.task_id!r} has multiple_outputs=True, so it must return a dict, not {value!r:.80}."
            )
        if self.show_return_value_in_logs:
            _log.info("Returned: %.200r", value)
        return value

    def _keywords(self, context: "Context") -> dict[str, Any]:
        """Add the context values that the function asks for by the names of its arguments."""
        parameters = inspect.signature(self.python_callable).parameters
        given = set(list(parameters)[: len(self.op_args)])
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            return {**{name: value for name, value in context.items() if name not in given}, **self.op_kwargs}
        wanted = {
            name: context.get(name)
            for name, parameter in parameters.items()
            if name in TEMPLATE_NAMES - given and (name in context or parameter.default is parameter.empty)
        }
        return {**wanted, **self.op_kwargs}
