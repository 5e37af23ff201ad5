"""Loading a DAG file in this process."""

import builtins
import hashlib
import itertools
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from turnout.tasks.dags import DAG
from turnout.tasks.declaring import MODULE_PREFIX, Declarations, collect
from turnout.tasks.errors import DagError, DagFileError

if TYPE_CHECKING:
    from types import CodeType

#: A file without `dag` and one of the others (in any case) declares no DAG and is not imported, as in Airflow's safe
#: mode. A file still written for Airflow is imported, so that its author is told what to change.
_TELLTALE = b"dag"
_PACKAGES = (b"turnout", b"airflow")

_loads = itertools.count(1)


def load_file(path: Path, root: Path | None = None) -> list[DAG]:
    """Import a DAG file and return its DAGs in order of declaration.

    Args:
        path: the file.
        root: the DAGs folder, which the file may import from; its own folder, where it always may, by default.

    Raises:
        DagFileError: the file does anything wrong; the message is for its author.
    """
    source = _read(path)
    if not _may_declare(source.lower()):
        return []
    code = _compile(source, path)
    _let_import_from(root or path.parent, path.parent)
    with collect() as declarations:
        _execute(code, path)
    return _check(declarations, path)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DagFileError(f"The file cannot be read: {error.strerror or error}.") from None


def _may_declare(source: bytes) -> bool:
    return _TELLTALE in source and any(package in source for package in _PACKAGES)


def _compile(source: bytes, path: Path) -> "CodeType":
    try:
        # Not through an import loader: its cached bytecode misses a change within the same second.
        return compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise DagFileError(f"{type(error).__name__}: {error.msg}.", error.lineno) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise DagFileError(f"The file is no Python source: {error or type(error).__name__}.") from None


def _let_import_from(*folders: Path) -> None:
    for folder in map(str, folders):
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)


def _execute(code: "CodeType", path: Path) -> None:
    module = _fresh_module(path)
    try:
        exec(code, module.__dict__)  # noqa: S102 - running the author's file is the purpose
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's file may raise anything
        sys.modules.pop(module.__name__, None)
        raise DagFileError(_complaint(error), _line(error, path)) from None


def _fresh_module(path: Path) -> ModuleType:
    """Make a module that no earlier load has touched, and that pickle can find."""
    place = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    module = ModuleType(f"{MODULE_PREFIX}{place}_{next(_loads)}")
    module.__file__ = str(path)
    module.__builtins__ = builtins  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    return module


def _complaint(error: BaseException) -> str:
    match error:
        case DagError():
            return str(error)
        case SystemExit():
            return f"The file calls sys.exit({error.code!r}) while it is loaded: a DAG file must only declare DAGs."
        case ModuleNotFoundError(name=str(name)) if name.split(".")[0] in ("airflow", "turnout"):
            return f"{error}: import DAG, task and operators from turnout.tasks."
        case ModuleNotFoundError():
            return f"{error}: install it where DAG files are loaded, or put it into the DAGs folder."
        case SyntaxError():
            return f"SyntaxError in {error.filename}, line {error.lineno}: {error.msg}."
    return f"{type(error).__name__}: {error}" if str(error) else f"{type(error).__name__} was raised."


def _line(error: BaseException, path: Path) -> int | None:
    """Return the innermost line of the file that led to an error."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else None


def _check(declarations: Declarations, path: Path) -> list[DAG]:
    for task in declarations.homeless_tasks:
        if task.dag is None:
            raise DagFileError(
                f"Task {task.task_id!r} belongs to no DAG: declare it inside `with DAG(...)`, or pass dag=.",
                task.declared_at.line,
            )
    _check_called(declarations, path)
    seen: dict[str, DAG] = {}
    for dag in declarations.dags:
        first = seen.setdefault(dag.dag_id, dag)
        if first is not dag:
            raise DagFileError(
                f"DAG {dag.dag_id!r} is declared twice (first in line {first.declared_at.line}): dag_ids are unique, "
                "rename one.",
                dag.declared_at.line,
            )
        try:
            dag.validate()
        except DagError as error:
            raise DagFileError(str(error), dag.declared_at.line) from None
    return declarations.dags


def _check_called(declarations: Declarations, path: Path) -> None:
    """Refuse a file whose only DAG is a `@dag` function that is never called: it would silently declare nothing."""
    for name, place in declarations.uncalled.items():
        if not declarations.dags and place.file == str(path):
            raise DagFileError(f"The @dag function {name}() is never called: add {name}() below it.", place.line)
