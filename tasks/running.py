"""Running one attempt of a task, in this process."""

import traceback
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from turnout.config.errors import TurnoutError
from turnout.tasks.context import Context, RunFacts, build_context, current_context
from turnout.tasks.declaring import nothing_declared
from turnout.tasks.fault_text import guarded, kind_and_text_of, text_of, traceback_of
from turnout.tasks.signals import TaskFailed, TaskSkipped, TaskStopped, TaskTimeout
from turnout.tasks.surroundings import surroundings
from turnout.tasks.templates import render_task
from turnout.tasks.timeouts import time_limit
from turnout.tasks.xcom import MAX_BYTES, XComReader, encode

if TYPE_CHECKING:
    from turnout.tasks.operator import BaseOperator

Outcome = Literal["success", "skipped", "failed"]

_OUR_FOLDER = f"{Path(__file__).parent}/"


@dataclass(frozen=True)
class TaskResult:
    """How an attempt ended.

    Attributes:
        outcome: the state it leads to, before retries are considered.
        retry: whether a failure may be tried again.
        error: what went wrong, in a line for people.
        traceback: where, from the author's first line on.
        return_value: the result for other tasks as JSON text; None when there is none.
        cause: a word for an ending that the state does not tell: `timeout`, `exit`, `interrupted`.
    """

    outcome: Outcome
    retry: bool = False
    error: str | None = None
    traceback: str | None = None
    return_value: str | None = None
    cause: Literal["timeout", "exit", "interrupted"] | None = None


def run_task(task: "BaseOperator", facts: RunFacts, xcom: XComReader, max_bytes: int = MAX_BYTES) -> TaskResult:
    """Run one attempt of a task. Nothing that user code does makes this raise.

    Args:
        task: the task.
        facts: what is known about the attempt.
        xcom: where the results of other tasks come from.
        max_bytes: the largest result, in bytes of JSON.
    """
    try:
        context = build_context(task, facts, xcom)
        with nothing_declared(), current_context(context):
            return TaskResult("success", return_value=_execute(task, context, max_bytes))
    except BaseException as error:  # noqa: BLE001 - user code may raise anything, also SystemExit
        return _ending(error)


def _execute(task: "BaseOperator", context: Context, max_bytes: int) -> str | None:
    with time_limit(task.execution_timeout):
        rendered = render_task(task, context)
        context["task"] = rendered
        with surroundings(rendered):
            try:
                value = rendered.execute(context)
            except (TaskStopped, TaskTimeout):
                rendered.on_kill()
                raise
    return encode(value, max_bytes) if task.do_xcom_push and value is not None else None


def _ending(error: BaseException) -> TaskResult:
    words = _one_line(error)
    place = traceback_of(error, _author_frames(error.__traceback__))
    match error:
        case TaskSkipped():
            return TaskResult("skipped", error=words)
        case TaskFailed():
            return TaskResult("failed", error=words, traceback=place)
        case TaskTimeout():
            return TaskResult("failed", retry=True, error=words, traceback=place, cause="timeout")
        case SystemExit():
            return TaskResult("failed", retry=True, error=words, traceback=place, cause="exit")
        case KeyboardInterrupt():
            return TaskResult("failed", retry=True, error=words, traceback=place, cause="interrupted")
    return TaskResult("failed", retry=True, error=words, traceback=place)


def _one_line(error: BaseException) -> str:
    text = text_of(error)
    match error:
        case TaskSkipped() | TaskFailed() | TurnoutError():
            return text or type(error).__name__
        case TaskTimeout():
            return f"Timed out: {text}." if text else "Timed out."
        case TaskStopped():
            return "The attempt was stopped."
        case SystemExit():
            code = guarded(lambda: repr(error.code))
            return f"The task called sys.exit({code}): raise TaskFailed or TaskSkipped to end it early."
    place = _author_frames(error.__traceback__)
    last = traceback.extract_tb(place)[-1] if place is not None else None
    where = f" ({Path(last.filename).name}, line {last.lineno})" if last is not None else ""
    return kind_and_text_of(error) + where


def _author_frames(frames: TracebackType | None) -> TracebackType | None:
    """Leave out our own frames at the top; keep all when every frame is ours."""
    outer: Any = frames
    while outer is not None and outer.tb_frame.f_code.co_filename.startswith(_OUR_FOLDER):
        outer = outer.tb_next
    return outer or frames
