"""What surrounds an attempt: the environment variables and the folder that its task asks for."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from turnout.tasks.signals import TaskFailed

if TYPE_CHECKING:
    from turnout.tasks.operator import BaseOperator


@contextmanager
def surroundings(task: "BaseOperator") -> Iterator[None]:
    """Run a block in the folder and with the environment of a task whose templates are rendered.

    Raises:
        TaskFailed: there is no such folder on this machine, or a variable cannot have that value.
    """
    before = dict(os.environ)
    folder = None if task.cwd is None else _enter(task.cwd)
    try:
        _set_variables(task)
        yield
    finally:
        if folder is not None:
            with suppress(OSError):  # the task may have closed it
                os.fchdir(folder)
                os.close(folder)
        if task.env and os.environ != before:
            os.environ.clear()
            os.environ.update(before)


def _enter(folder: str) -> int:
    """Change the folder; return a descriptor of the one that was current."""
    current = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.chdir(folder)
    except OSError as error:
        os.close(current)
        raise TaskFailed(f"Cannot run in the folder {folder!r} on this worker (cwd): {error.strerror}.") from None
    return current


def _set_variables(task: "BaseOperator") -> None:
    for name, value in (task.env or {}).items():
        try:
            os.environ[name] = str(value)
        except ValueError as error:
            raise TaskFailed(f"The environment variable {name!r} cannot be set (env): {error}.") from None
