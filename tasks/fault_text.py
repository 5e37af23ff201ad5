"""What is said of an exception that user code has raised, whose own methods may fail, or raise anything."""

import traceback
from collections.abc import Callable
from types import TracebackType


def text_of(error: BaseException) -> str:
    """Return what an exception says, in a line."""
    return " ".join(guarded(lambda: str(error)).split())


def kind_and_text_of(error: BaseException) -> str:
    """Return an exception as Python prints it, in a line: `ValueError: what it says`."""
    return ": ".join(filter(None, (type(error).__name__, text_of(error))))


def traceback_of(error: BaseException, frames: TracebackType | None) -> str:
    """Return the traceback of an exception, from some frame on."""
    return guarded(lambda: "".join(traceback.format_exception(type(error), error, frames)))


def guarded(write: Callable[[], str]) -> str:
    """Return what an author's code writes, or that it cannot."""
    try:
        return write()
    except BaseException as fault:  # noqa: BLE001  its author may raise anything, also SystemExit
        return f"(it cannot be shown: {type(fault).__name__})"
