"""Dependencies between tasks: `a >> b`, `b << a`, lists of tasks, `chain`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Self, TypeVar, cast

from turnout.tasks.errors import DagError
from turnout.tasks.setups import make_setup, make_teardown

if TYPE_CHECKING:
    from turnout.tasks.operator import BaseOperator

L = TypeVar("L", bound="Linkable | Sequence[Linkable]")


class Linkable(ABC):
    """What may stand beside `>>`: a task, or its future result."""

    @property
    @abstractmethod
    def linked_task(self) -> "BaseOperator":
        """The task that the dependency is about."""

    def set_downstream(self, other: "Linkable | Sequence[Linkable]") -> None:
        """Let one task or more run after this one."""
        for task in _tasks(other):
            _link(self.linked_task, task)

    def set_upstream(self, other: "Linkable | Sequence[Linkable]") -> None:
        """Let this task run after one or more others."""
        for task in _tasks(other):
            _link(task, self.linked_task)

    def as_setup(self) -> Self:
        """Make the task a setup: what lies behind it runs only if it succeeds.

        Raises:
            DagError: it is a teardown.
        """
        make_setup(self.linked_task)
        return self

    def as_teardown(
        self, *, setups: "Linkable | Sequence[Linkable] | None" = None, on_failure_fail_dagrun: bool = False
    ) -> Self:
        """Make the task a teardown: it runs when all before it have ended, also badly, if a setup of it succeeded.

        Args:
            setups: what it cleans up after; these become setups, and it comes after them.
            on_failure_fail_dagrun: whether the run fails with it; otherwise it has no part in the state of the run.

        Raises:
            DagError: it is a setup, or has a trigger rule of its own.
        """
        cleaned = [] if setups is None else _tasks(setups)
        make_teardown(self.linked_task, cleaned, on_failure_fail_dagrun=on_failure_fail_dagrun)
        return self

    def __rshift__(self, other: L) -> L:
        self.set_downstream(other)
        return other

    def __lshift__(self, other: L) -> L:
        self.set_upstream(other)
        return other

    def __rrshift__(self, other: "Linkable | Sequence[Linkable]") -> "Linkable":
        self.set_upstream(other)
        return self

    def __rlshift__(self, other: "Linkable | Sequence[Linkable]") -> "Linkable":
        self.set_downstream(other)
        return self


def chain(*tasks: "Linkable | Sequence[Linkable]") -> None:
    """Let tasks run one after the other: `chain(a, [b, c], d)` is `a >> [b, c] >> d`.

    Two lists side by side have the same length and are linked one to one, as in Airflow.

    Raises:
        DagError: two lists side by side have different lengths.
    """
    for left, right in pairwise(tasks):
        if isinstance(left, Linkable):
            left.set_downstream(right)
        elif isinstance(right, Linkable):
            right.set_upstream(left)
        else:
            _link_one_to_one(_tasks(left), _tasks(right))


def _link_one_to_one(left: "Sequence[BaseOperator]", right: "Sequence[BaseOperator]") -> None:
    if len(left) != len(right):
        raise DagError(
            f"chain() links two lists one to one, but one has {len(left)} tasks and the next {len(right)}: "
            "put a task between them, or make them equally long."
        )
    for upstream, downstream in zip(left, right, strict=True):
        _link(upstream, downstream)


def _tasks(linked: "Linkable | Sequence[Linkable]") -> "list[BaseOperator]":
    items = [linked] if isinstance(linked, Linkable) else linked
    if not isinstance(items, list | tuple | set | frozenset):
        raise DagError(f"Only tasks can be linked, not {_describe(items)}.")
    for item in items:
        if not isinstance(item, Linkable):
            raise DagError(f"Only tasks can be linked, not {_describe(item)}.")
    return [cast("Linkable", item).linked_task for item in items]


def _describe(thing: object) -> str:
    name = getattr(thing, "__name__", None)
    if callable(thing) and name:
        return f"the function {name!r}: decorate it with @task and call it, {name}()"
    return f"{type(thing).__name__} {thing!r}"


def _link(upstream: "BaseOperator", downstream: "BaseOperator") -> None:
    _bring_together(upstream, downstream)
    if upstream is downstream:
        raise DagError(f"DAG {upstream.dag_id!r}: task {upstream.task_id!r} cannot come after itself.")
    upstream.downstream_task_ids.add(downstream.task_id)
    downstream.upstream_task_ids.add(upstream.task_id)


def _bring_together(one: "BaseOperator", other: "BaseOperator") -> None:
    """Make sure that two tasks are of one DAG; a task without one joins the other's."""
    if one.dag is not None and other.dag is not None:
        if one.dag is not other.dag:
            raise DagError(
                f"Task {one.task_id!r} of DAG {one.dag_id!r} and task {other.task_id!r} of DAG {other.dag_id!r} "
                "cannot be linked: both must be of one DAG."
            )
    elif one.dag is not None:
        one.dag.add_task(other)
    elif other.dag is not None:
        other.dag.add_task(one)
    else:
        raise DagError(
            f"Tasks {one.task_id!r} and {other.task_id!r} belong to no DAG: declare them inside `with DAG(...)`, "
            "or pass dag=."
        )
