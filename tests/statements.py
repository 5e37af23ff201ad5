"""The statements of the loop, found in the code, so that none is forgotten."""

import ast
import importlib
import inspect
import pkgutil

from sqlalchemy import TextClause, text

from turnout import scheduler

#: Functions of the same modules that no loop calls: what a person does, and what a start looks at.
BESIDE_THE_LOOP = {"set_paused", "_upgrade", "_status"}
_METADATA = "turnout.metadata."


def of_the_loop() -> dict[str, str]:
    """Find the statements of the modules of `metadata` from which the modules of the loop import anything, by name."""
    return {name: statement for module in _modules() for name, statement in _statements_of(module).items()}


def _modules() -> set[str]:
    steps = [module.name for module in pkgutil.iter_modules(scheduler.__path__, "turnout.scheduler.")]
    used = {
        value.__name__ if inspect.ismodule(value) else str(getattr(value, "__module__", ""))
        for step in steps
        for value in vars(importlib.import_module(step)).values()
    }
    return {name for name in used if name.startswith(_METADATA)}


def _statements_of(name: str) -> dict[str, str]:
    """Find the statements of a module: its constants, and what stands as a literal in its functions."""
    module, short = importlib.import_module(name), name.removeprefix(_METADATA)
    found = {f"{short}.{key}": value.text for key, value in vars(module).items() if isinstance(value, TextClause)}
    for function in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(function, ast.FunctionDef) and function.name not in BESIDE_THE_LOOP:
            for number, literal in enumerate(filter(None, map(_literal_of, ast.walk(function)))):
                found[f"{short}.{function.name} {number}"] = literal
    return found


def _literal_of(node: ast.AST) -> str | None:
    """Return the argument of a call `text("…")`, bound as SQLAlchemy binds it."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "text" and isinstance(node.args[0], ast.Constant):
        return text(str(node.args[0].value)).text
    return None
