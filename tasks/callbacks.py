"""Callbacks: what the author has called when a task or a run goes over into a state.

They run on a worker that serves the queue `callbacks`, each in the context of its task or run, and never in the process
of the task itself: a task that is killed cannot call anybody.
"""

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from turnout.tasks.context import Context, RunFacts, build_context, build_run_context, current_context
from turnout.tasks.declaring import nothing_declared
from turnout.tasks.errors import DagError
from turnout.tasks.fault_text import kind_and_text_of, traceback_of

if TYPE_CHECKING:
    from turnout.tasks.dags import DAG
    from turnout.tasks.operator import BaseOperator
    from turnout.tasks.xcom import XComReader

Callback = Callable[[Context], Any]
Callbacks = Callback | Sequence[Callback] | None

#: The queue name that callbacks wait in; no task can ask for it.
CALLBACK_QUEUE = "callbacks"
#: Airflow's: `on_<event>_callback` of a task; a DAG has those of `failure` and `success` for its runs.
TASK_EVENTS = ("execute", "failure", "retry", "skipped", "success")

logger = logging.getLogger("turnout.task")


class CallbackTimeoutError(BaseException):
    """The callbacks take too long; not an Exception, so that a callback's `except Exception` does not swallow it."""


@dataclass(frozen=True)
class Call:
    """What has happened to a task instance or a run, for those who are called for it.

    Attributes:
        event: `execute`, `success`, `failure`, `retry` or `skipped`.
        state: the state that it is in now.
        start_date: when it started; None if it never did.
        end_date: when it ended.
        error: what went wrong, if anything.
    """

    event: str
    state: str
    start_date: datetime | None = None
    end_date: datetime | None = None
    error: str | None = None


def check_callbacks(given: Any, name: str) -> list[Callback]:
    """Return callbacks, which may be given as one function or as several, as a list.

    Raises:
        DagError: they are something else.
    """
    found = [given] if callable(given) else given or []
    if not isinstance(found, list | tuple) or not all(map(callable, found)):
        raise DagError(f"{name} must be a function that takes the context, or a list of such functions, not {given!r}.")
    for callback in found:
        if isinstance(callback, type):
            raise DagError(f"{name} needs an object: {callback.__name__}(…), not the class itself.")
        if inspect.iscoroutinefunction(callback):
            raise DagError(f"{name} must be a plain function, not an async one: call asyncio.run() in it.")
    return list(found)


def events_of(owner: "BaseOperator | DAG") -> list[str]:
    """List the events that a task, or a DAG for its runs, has callbacks for."""
    return [event for event in TASK_EVENTS if callbacks_of(owner, event)]


def callbacks_of(owner: "BaseOperator | DAG", event: str) -> list[Callback]:
    """Return the callbacks of a task or DAG for an event."""
    found: list[Callback] = getattr(owner, f"on_{event}_callback", [])
    return found


def call_back(
    owner: "BaseOperator | DAG",
    facts: RunFacts,
    call: Call,
    xcom: "XComReader",
    on_return: Callable[[], None] = lambda: None,
) -> str | None:
    """Call all callbacks for an event, one after the other, whatever becomes of those before.

    Args:
        owner: the task, or the DAG for its run.
        facts: what is known about the run and the attempt.
        call: what has happened.
        xcom: where results of tasks come from.
        on_return: called after each, however it ends.

    Returns:
        What went wrong in those that failed, in a line; None when none did.
    """
    context = _context(owner, facts, call, xcom)
    problems = []
    for callback in callbacks_of(owner, call.event):
        try:
            with nothing_declared(), current_context(context):
                try:
                    callback(context)
                finally:
                    on_return()
        except CallbackTimeoutError:
            raise
        except BaseException as error:  # noqa: BLE001  user code may raise anything
            logger.error("%s", traceback_of(error, error.__traceback__))  # noqa: TRY400  goes into the log as one entry
            problems.append(f"{_name(callback)}: {kind_and_text_of(error)}")
    return "; ".join(problems) or None


def _context(owner: "BaseOperator | DAG", facts: RunFacts, call: Call, xcom: "XComReader") -> Context:
    from turnout.tasks.dags import DAG  # noqa: PLC0415  a DAG has callbacks itself

    context = build_run_context(owner, facts) if isinstance(owner, DAG) else build_context(owner, facts, xcom)
    subject = context["dag_run"] if isinstance(owner, DAG) else context["ti"]
    subject.state, subject.start_date, subject.end_date = call.state, call.start_date, call.end_date
    if call.error is not None:
        context["exception"] = call.error
    return {**context, "reason": call.error or f"{call.event}: the state is {call.state}"}


def _name(callback: Callback) -> str:
    return getattr(callback, "__qualname__", None) or type(callback).__qualname__
