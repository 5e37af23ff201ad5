"""Notifiers: callbacks that tell somebody, as objects with templates."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from turnout.tasks.context import Context
from turnout.tasks.templates import render_notifier


class BaseNotifier(ABC):
    """A callback with template fields. Subclass it and write `notify`.

    An object of it is given like any callback: `on_failure_callback=MyNotifier(message="{{ ti.task_id }} failed")`.
    """

    #: The attributes that are templates.
    template_fields: ClassVar[Sequence[str]] = ()
    #: The endings of texts that name a template file.
    template_ext: ClassVar[Sequence[str]] = ()

    @property
    def rendered_fields(self) -> tuple[str, ...]:
        """The attributes that are templates."""
        return tuple(self.template_fields)

    @abstractmethod
    def notify(self, context: Context) -> None:
        """Tell somebody.

        Args:
            context: what is known about the task or run, under Airflow's names; `exception` is what went wrong.
        """

    def __call__(self, context: Context) -> None:
        """Render the templates and notify."""
        render_notifier(self, context).notify(context)
