"""Which DAG is being declared, and what the file being loaded has declared so far."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from turnout.tasks.dags import DAG
    from turnout.tasks.operator import BaseOperator

#: How the modules of loaded DAG files are named; what follows is different in each load.
MODULE_PREFIX = "turnout_dag_file_"

_OUR_FOLDER = f"{Path(__file__).parent}/"

_open_dags: ContextVar[tuple["DAG", ...]] = ContextVar("open_dags", default=())
_declarations: ContextVar["Declarations | None"] = ContextVar("declarations", default=None)


class Place(NamedTuple):
    """Where something was declared."""

    file: str
    line: int


@dataclass
class Declarations:
    """What one DAG file has declared while it was loaded."""

    dags: list["DAG"] = field(default_factory=list)
    homeless_tasks: list["BaseOperator"] = field(default_factory=list)
    #: Functions with `@dag` that have not been called yet.
    uncalled: dict[str, Place] = field(default_factory=dict)


@contextmanager
def collect() -> Iterator[Declarations]:
    """Collect what is declared from here on."""
    declarations = Declarations()
    token = _declarations.set(declarations)
    try:
        yield declarations
    finally:
        _declarations.reset(token)


def collecting() -> Declarations | None:
    """Return what the file being loaded has declared so far, if one is being loaded."""
    return _declarations.get()


@contextmanager
def nothing_declared() -> Iterator[None]:
    """Run a block as if no DAG were being declared: user code of a task, in a test of its DAG."""
    tokens = _declarations.set(None), _open_dags.set(())
    try:
        yield
    finally:
        _declarations.reset(tokens[0])
        _open_dags.reset(tokens[1])


def current_dag() -> "DAG | None":
    """Return the DAG of the innermost `with DAG(...)` block."""
    dags = _open_dags.get()
    return dags[-1] if dags else None


def open_dag(dag: "DAG") -> None:
    """Make a DAG the current one until it is closed."""
    _open_dags.set((*_open_dags.get(), dag))


def close_dag() -> None:
    """Go back to the DAG that was current before."""
    _open_dags.set(_open_dags.get()[:-1])


def caller() -> Place:
    """Return the line of the author's code that is being executed."""
    frame = sys._getframe(1)  # noqa: SLF001 - inspect.stack() reads source files and takes milliseconds
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OUR_FOLDER):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
