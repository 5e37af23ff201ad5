"""How the commands are put together: each module is imported only when one of its commands is called."""

import importlib
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group


def command_group() -> typer.Typer:
    """Make an empty group of commands; `main` says what it is for."""
    return typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)


class LazyCommand(TyperCommand):
    """A command, or a group of them, that stands in the table of `main` before its module is imported.

    Args:
        name: what a person types.
        target: where it is, as `module:attribute`; the attribute is a function or a group.
        summary: what it is for, on one line.
    """

    def __init__(self, name: str, target: str, summary: str) -> None:
        super().__init__(name, help=summary, rich_markup_mode=None)
        self.target = target

    def load(self) -> TyperCommand | TyperGroup:
        """Import the module and return the command itself."""
        module, _, attribute = self.target.partition(":")
        found = getattr(importlib.import_module(module), attribute)
        command: Any = _of_group(found, self.help) if isinstance(found, typer.Typer) else _of_function(found)
        command.name = self.name
        return command  # type: ignore[no-any-return]  # typer keeps the type of its commands private


class LazyGroup(TyperGroup):
    """The root: a group of lazy commands."""

    def __init__(self, name: str, summary: str, commands: Sequence[LazyCommand]) -> None:
        super().__init__(name=name, help=summary, commands=list(commands), rich_markup_mode=None, no_args_is_help=True)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Find the command that the arguments name, and import it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest


def _of_group(app: typer.Typer, summary: str | None) -> TyperGroup:
    group = get_group(app)
    group.help = summary
    return group


def _of_function(function: Any) -> Any:
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command()(function)
    return get_command(app)
