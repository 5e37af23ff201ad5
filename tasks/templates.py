"""Rendering the template fields of a task."""

import copy
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from turnout.tasks.context import Context
from turnout.tasks.declaring import Place
from turnout.tasks.errors import TemplateError
from turnout.tasks.macros import FILTERS
from turnout.tasks.references import DagParam, XComArg
from turnout.tasks.template_names import DATED_NAMES

if TYPE_CHECKING:
    from jinja2 import Environment

    from turnout.tasks.dags import DAG
    from turnout.tasks.notifier import BaseNotifier
    from turnout.tasks.operator import BaseOperator

N = TypeVar("N", bound="BaseNotifier")
R = TypeVar("R", bound="BaseOperator | BaseNotifier")
T = TypeVar("T", bound="BaseOperator")

_MARKS = ("{{", "{%", "{#")


def render_task(task: T, context: Context) -> T:
    """Return a copy of a task in which every template is replaced by its value.

    Raises:
        TemplateError: a template cannot be rendered; the message names the field, the reason and the remedy.
        XComError: the result of another task that a field needs does not exist.
    """
    place = task.declared_at if task.dag is None else task.dag.declared_at
    words = f"task {task.task_id!r} (DAG {task.dag_id!r})"
    return _render(task, _Renderer(_Where(words, task.dag, place, task.template_ext), context))


def render_notifier(notifier: N, context: Context) -> N:
    """Return a copy of a notifier in which every template is replaced by its value.

    Raises:
        TemplateError: a template cannot be rendered.
    """
    dag: DAG | None = context.get("dag")
    place = None if dag is None else dag.declared_at
    where = _Where(f"notifier {type(notifier).__name__}", dag, place, notifier.template_ext)
    return _render(notifier, _Renderer(where, context))


def _render(original: R, renderer: "_Renderer") -> R:
    rendered = copy.copy(original)
    for name in original.rendered_fields:
        setattr(rendered, name, renderer.render(getattr(original, name), name))
    return rendered


class _Where(NamedTuple):
    """Whose templates are rendered, in words; and where their files are."""

    words: str
    dag: "DAG | None"
    place: Place | None
    template_ext: Sequence[str]


class _Renderer:
    """Renders fields; Jinja is loaded when the first template is met."""

    def __init__(self, where: _Where, context: Context) -> None:
        self._where = where
        self._context = context
        self._environment: Environment | None = None

    def render(self, value: Any, field: str) -> Any:
        """Render a value, and whatever it contains."""
        match value:
            case str():
                return self._render_text(value, field)
            case XComArg() | DagParam():
                return value.resolve(self._context)
            case list() | set() | frozenset():
                return type(value)(self.render(item, field) for item in value)
            case tuple():
                items = [self.render(item, field) for item in value]
                return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
            case dict():
                return {key: self.render(item, field) for key, item in value.items()}
        return value

    def _render_text(self, text: str, field: str) -> str:
        is_file = self._names_file(text)
        if not is_file and not any(mark in text for mark in _MARKS):
            return text
        if self._environment is None:
            self._environment = _environment(self._where)
        try:
            template = self._environment.get_template(text) if is_file else self._environment.from_string(text)
            return template.render(self._context)
        except Exception as error:  # noqa: BLE001 - a template calls the author's functions
            raise TemplateError(self._complaint(field, text, error)) from None

    def _names_file(self, text: str) -> bool:
        """Tell a file name from a command that happens to end in one: `bash /opt/report.sh` is no name."""
        return text.endswith(tuple(self._where.template_ext)) and len(text.split()) == 1

    def _complaint(self, field: str, text: str, error: Exception) -> str:
        where = f"The template in {field} of {self._where.words} cannot be rendered"
        return f"{where}: {_reason(error, self._context)} Template: {text!r:.200}"


def _environment(where: _Where) -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - 30 ms

    dag = where.dag
    beside = [] if where.place is None else [str(Path(where.place.file).parent)]
    folders = [*beside, *(() if dag is None else dag.template_searchpath)]
    # Templates make commands and SQL, not HTML: escaping would corrupt them.
    environment = Environment(
        loader=FileSystemLoader(folders),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701
        extensions=["jinja2.ext.do"],
    )
    environment.filters.update({**FILTERS, **({} if dag is None else dag.user_defined_filters)})
    return environment


def _reason(error: Exception, context: Mapping[str, Any]) -> str:
    from jinja2 import TemplateNotFound, UndefinedError  # noqa: PLC0415 - loaded by now

    if isinstance(error, TemplateNotFound):
        return (
            f"there is no file {error.name!r} beside the DAG file or in template_searchpath "
            "(to run a script that is somewhere else, write `bash` before its path)."
        )
    if not isinstance(error, UndefinedError):
        return f"{type(error).__name__}: {error}."
    missing = str(error.message or "").split("'")[1:2]
    if str(error.message).endswith("is undefined") and missing:
        return _unknown_name(missing[0], context)
    return f"{error.message}."


def _unknown_name(name: str, context: Mapping[str, Any]) -> str:
    if name in DATED_NAMES and name not in context:
        return f"{name!r} is unknown, because this run has no logical date or data interval."
    near = difflib.get_close_matches(name, context, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the names are {', '.join(sorted(context))}."
    return f"{name!r} is unknown: {hint}"
