"""The program that parses one DAG file: it runs in a process of its own, since DAG files do anything.

    python -m turnout.scheduler.processor.parse FOLDER FILE DESCRIPTOR LIMIT_S

The data interval that each DAG of the file ran for last comes by standard input, as JSON. The result goes to the
descriptor as JSON, as DAG files print. After `LIMIT_S` seconds, or when the interpreter crashes, the descriptor gets
Python's own report of what was being executed instead, and the process ends.
"""

import faulthandler
import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
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
    result = json.dumps(parse(Path(folder), file, json.load(sys.stdin))).encode()
    faulthandler.cancel_dump_traceback_later()
    while result:
        result = result[os.write(out, result) :]
    os._exit(0)


def parse(folder: Path, file: str, last_intervals: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Load a file of the DAGs folder in this process and describe what it declares, or why it cannot be loaded.

    Args:
        folder: the DAGs folder.
        file: the path of the file in it.
        last_intervals: by DAG, the data interval of its last scheduled run.
    """
    from turnout.tasks.errors import DagFileError  # noqa: PLC0415  the time limit covers these imports
    from turnout.tasks.loading import load_file  # noqa: PLC0415
    from turnout.tasks.masking import process_masker  # noqa: PLC0415

    result: dict[str, Any] = {"dags": [], "problem": None}
    try:
        result["dags"] = [_describe(dag, last_intervals.get(dag.dag_id)) for dag in load_file(folder / file, folder)]
    except DagFileError as error:
        result["problem"] = {"message": process_masker.mask(error.message), "line": error.line}
    result["imported"] = _imported(folder)
    return result


def _describe(dag: "DAG", last: tuple[str, str] | None) -> dict[str, Any]:
    from turnout.tasks.serialization import content_hash, serialize  # noqa: PLC0415
    from turnout.tasks.timetables import is_built_in  # noqa: PLC0415

    plan = None if is_built_in(dag.timetable) else _plan(dag, last)
    content = serialize(dag)
    return {"dag_id": dag.dag_id, "content_hash": content_hash(content), "content": content, "plan": plan}


def _plan(dag: "DAG", last: tuple[str, str] | None) -> dict[str, Any]:
    """Plan the next runs of a timetable of the author's own, which may fail like any of the author's code."""
    from turnout.tasks.errors import DagError, DagFileError  # noqa: PLC0415
    from turnout.tasks.timetables import DataInterval, plan_ahead  # noqa: PLC0415

    interval = DataInterval(*map(datetime.fromisoformat, last)) if last else None
    now = datetime.now(UTC)
    try:
        str(dag.timetable.summary)
        runs, is_open = plan_ahead(dag.timetable, interval, dag.start_date, dag.end_date, str(dag.catchup), now)
    except DagError as error:
        raise DagFileError(f"DAG {dag.dag_id!r}: {error}", dag.declared_at.line) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001  the author's code may raise anything
        complaint = f"its timetable {type(dag.timetable).__name__} raised {type(error).__name__}: {error}"
        raise DagFileError(f"DAG {dag.dag_id!r}: {complaint}", dag.declared_at.line) from None
    moments = [[moment.isoformat() for moment in (run.run_after, *run.data_interval)] for run in runs]
    return {"runs": moments, "is_open": is_open}


def _imported(folder: Path) -> list[str]:
    modules = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    paths = {Path(path) for module in modules if isinstance(path := vars(module).get("__file__"), str)}
    return sorted(path.relative_to(folder).as_posix() for path in paths if path.is_relative_to(folder))


if __name__ == "__main__":
    main()
