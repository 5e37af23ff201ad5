"""The program that parses one DAG file: it runs in a process of its own, since DAG files do anything.

    python -m turnout.scheduler.processor.parse FOLDER FILE DESCRIPTOR LIMIT_S

The result goes to the descriptor as JSON, as DAG files print. After `LIMIT_S` seconds, or when the interpreter crashes,
the descriptor gets Python's own report of what was being executed instead, and the process ends.
"""

import faulthandler
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from turnout.tasks import DAG


def main() -> NoReturn:
    """Parse the file that the command line names and leave without any of the file's own exit handlers."""
    folder, file, descriptor, limit_s = sys.argv[1:]
    out = int(descriptor)
    os.set_inheritable(out, False)
    faulthandler.enable(out)
    faulthandler.dump_traceback_later(float(limit_s), exit=True, file=out)
    result = json.dumps(parse(Path(folder), file)).encode()
    faulthandler.cancel_dump_traceback_later()
    while result:
        result = result[os.write(out, result) :]
    os._exit(0)


def parse(folder: Path, file: str) -> dict[str, Any]:
    """Load a file of the DAGs folder in this process and describe what it declares, or why it cannot be loaded."""
    from turnout.tasks.errors import DagFileError  # noqa: PLC0415  the time limit covers these imports
    from turnout.tasks.loading import load_file  # noqa: PLC0415

    result: dict[str, Any] = {"dags": [], "problem": None}
    try:
        result["dags"] = [_describe(dag) for dag in load_file(folder / file, folder)]
    except DagFileError as error:
        result["problem"] = {"message": error.message, "line": error.line}
    result["imported"] = _imported(folder)
    return result


def _describe(dag: "DAG") -> dict[str, Any]:
    from turnout.tasks.serialization import content_hash, serialize  # noqa: PLC0415

    content = serialize(dag)
    return {"dag_id": dag.dag_id, "content_hash": content_hash(content), "content": content}


def _imported(folder: Path) -> list[str]:
    modules = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    paths = {Path(path) for module in modules if isinstance(path := vars(module).get("__file__"), str)}
    return sorted(path.relative_to(folder).as_posix() for path in paths if path.is_relative_to(folder))


if __name__ == "__main__":
    main()
