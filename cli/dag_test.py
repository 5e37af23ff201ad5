"""`turnout dags test`."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from turnout.cli.dag_trigger import ConfOption
from turnout.cli.errors import UsageError
from turnout.cli.options import LogicalDateOption, Output, OutputOption
from turnout.cli.output import print_table, remark, show_json
from turnout.config.settings import load_settings
from turnout.metadata.errors import NotFoundError
from turnout.metadata.listings.missing import no_such
from turnout.scheduler.processor.folder import list_files
from turnout.tasks import DAG
from turnout.tasks.errors import DagFileError
from turnout.tasks.loading import load_file
from turnout.tasks.trial import TrialResult


def dag_test(
    what: Annotated[str, typer.Argument(metavar="FILE_OR_DAG", help="A DAG file, or the id of a DAG.")],
    *,
    dag_id: Annotated[str | None, typer.Option("--dag-id", help="Which DAG of a file with several.")] = None,
    logical_date: LogicalDateOption = None,
    conf: ConfOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run a DAG once in this process, without servers. Exits with 1 when it fails."""
    path = Path(what)
    dag = _of_file(path, dag_id) if path.suffix == ".py" else _of_folder(what)
    # JSON has standard output to itself.
    with redirect_stdout(sys.stderr if output is Output.JSON else sys.stdout):
        result = dag.test(logical_date=logical_date, conf=conf)
    if output is Output.JSON:
        show_json({"dag_id": dag.dag_id, "state": result.state, "tasks": result.tasks, "errors": result.errors})
    else:
        print_table(("task_id", "state", "error"), _rows(result))
    if result.state != "success":
        raise typer.Exit(1)


def _of_file(path: Path, dag_id: str | None) -> DAG:
    dags = {dag.dag_id: dag for dag in _load(path, path.parent)}
    if dag_id is None and len(dags) == 1:
        return next(iter(dags.values()))
    if not dags:
        raise NotFoundError(f"{path} declares no DAG.")
    if dag_id is None:
        raise UsageError(f"{path} declares the DAGs {', '.join(dags)}: choose one with --dag-id.")
    if dag_id not in dags:
        raise no_such(f"DAG in {path} called", dag_id, dags, f"It declares {', '.join(dags)}.")
    return dags[dag_id]


def _of_folder(dag_id: str) -> DAG:
    """Find the file that declares a DAG; files that mention its name come first, since loading runs their code."""
    folder = load_settings().dags_path
    known: list[str] = []
    for path in sorted(_files(folder), key=lambda path: (dag_id not in path.read_text(errors="replace"), path)):
        try:
            dags = {dag.dag_id: dag for dag in load_file(path, folder)}
        except DagFileError as error:
            remark(f"Passed over {path}: {error}")
            continue
        if dag_id in dags:
            return dags[dag_id]
        known += dags
    raise no_such("DAG", dag_id, known, f"No file in {folder} declares it.")


def _files(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in list_files(folder)]
    except OSError as error:
        raise NotFoundError(f"Cannot read the DAGs folder {folder}: {error.strerror}.") from None


def _load(path: Path, root: Path) -> list[DAG]:
    try:
        return load_file(path, root)
    except DagFileError as error:
        where = f"{path}, line {error.line}" if error.line else str(path)
        raise DagFileError(f"{where}: {error}", error.line) from None


def _rows(result: TrialResult) -> list[tuple[str, str, str | None]]:
    return [(task_id, state, result.errors.get(task_id)) for task_id, state in result.tasks.items()]
