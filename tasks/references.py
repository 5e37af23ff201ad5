"""Values that are not known while a DAG is declared: results of other tasks, and params."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from turnout.tasks.errors import DagError, XComError
from turnout.tasks.linking import Linkable
from turnout.tasks.xcom import RETURN_VALUE, NotPushed

if TYPE_CHECKING:
    from turnout.tasks.context import Context
    from turnout.tasks.operator import BaseOperator


class XComArg(Linkable):
    """The future result of a task: hand it to another task, which then runs after it and gets the value.

    `result["key"]` is the future item of a result that is a dict.

    Args:
        operator: the task.
        path: the keys that lead from its result to the value meant.
    """

    def __init__(self, operator: "BaseOperator", path: tuple[str | int, ...] = ()) -> None:
        self.operator = operator
        self.path = path

    @property
    def linked_task(self) -> "BaseOperator":
        """The task whose result this is."""
        return self.operator

    def resolve(self, context: "Context") -> Any:
        """Return the value, now that the task has run.

        Raises:
            XComError: the task returned nothing, or its result has no such item.
        """
        value = context["ti"].xcom_pull(task_ids=self.operator.task_id, default=NotPushed)
        if value is NotPushed:
            if not self.path:
                return None
            raise XComError(f"Task {self.operator.task_id!r} returned no value, so there is no {self!r} to use.")
        for key in self.path:
            try:
                value = value[key]
            except (LookupError, TypeError):
                raise XComError(
                    f"The result of task {self.operator.task_id!r} has no item {key!r}: it is {value!r:.200}."
                ) from None
        return value

    def __getitem__(self, key: str | int) -> "XComArg":
        return XComArg(self.operator, (*self.path, key))

    def __iter__(self) -> NoReturn:
        raise DagError(f"The result of task {self.operator.task_id!r} cannot be looped over: {_ONLY_LATER}")

    def __bool__(self) -> NoReturn:
        raise DagError(f"The result of task {self.operator.task_id!r} cannot be tested: {_ONLY_LATER}")

    def __str__(self) -> str:
        """Return a template of the value, for use inside a longer text."""
        items = "".join(f"[{key!r}]" for key in self.path)
        return f"{{{{ ti.xcom_pull(task_ids={self.operator.task_id!r}, key={RETURN_VALUE!r}){items} }}}}"

    def __repr__(self) -> str:
        return f"<result of {self.operator.task_id}{''.join(f'[{key!r}]' for key in self.path)}>"


class DagParam:
    """The value that a param has in a run: what an argument of a `@dag` function stands for.

    Args:
        name: the param.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def resolve(self, context: "Context") -> Any:
        """Return the value in this run."""
        return context["params"][self.name]

    def __str__(self) -> str:
        """Return a template of the value, for use inside a longer text."""
        return f"{{{{ params[{self.name!r}] }}}}"

    def __repr__(self) -> str:
        return f"<DagParam {self.name}>"


_ONLY_LATER = "it is not known until the task has run. Hand it to a task that does this."


def references_in(value: object) -> Iterator[XComArg]:
    """Find the results of other tasks inside a value."""
    if isinstance(value, XComArg):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from references_in(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from references_in(item)
