"""A task that does nothing: a place in the graph."""

from typing import TYPE_CHECKING, ClassVar

from turnout.tasks.operator import BaseOperator

if TYPE_CHECKING:
    from turnout.tasks.context import Context


class EmptyOperator(BaseOperator):
    """A task that does nothing. The scheduler marks it done by itself; no worker ever sees it."""

    sends_to_worker: ClassVar[bool] = False

    def execute(self, context: "Context") -> None:
        """Do nothing."""
