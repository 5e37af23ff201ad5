"""Options that several commands share: a parameter that is a dataclass stands for an option for each of its fields."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the fields of its dataclass parameters as parameters of its own, in their order."""
    signature = inspect.signature(command)
    groups = {name: own.annotation for name, own in signature.parameters.items() if _is_group(own.annotation)}

    @functools.wraps(command)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
        command(**given)

    parameters = [each for own in signature.parameters.values() for each in _spread(own)]
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # what typer reads
    called.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
    return called


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and dataclasses.is_dataclass(annotation)


def _spread(own: inspect.Parameter) -> Iterator[inspect.Parameter]:
    if not _is_group(own.annotation):
        yield own.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        return
    for field in dataclasses.fields(own.annotation):
        default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        yield inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type)
