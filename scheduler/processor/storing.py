"""Write what came of a parse into the metadata database: one file, one transaction."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from turnout.metadata import dags, plans, runs
from turnout.metadata.dags import DeclaredDag, ImportProblem, KnownDag
from turnout.metadata.engine import Connection
from turnout.metadata.planning import timing_of
from turnout.metadata.texts import storable
from turnout.metadata.wakeups import notify_schedulers
from turnout.scheduler.processor.folder import stamp_of
from turnout.scheduler.processor.parsed import Parse

#: Of a file full of DAGs of another file, so many are named.
MAX_CLASHES_NAMED = 3
#: Longer messages than this many characters are cut.
MAX_MESSAGE = 2000


@dataclass(frozen=True)
class StoredFile:
    """What storing a file changed.

    Attributes:
        changed: the DAGs that appeared, changed, or came back.
        retired: the DAGs that the file declares no longer.
        problem: why the file, or some DAG of it, could not be taken in.
    """

    changed: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    problem: ImportProblem | None = None


class FileStore:
    """The way from a parse into the database.

    Args:
        folder: the DAGs folder.
        paused_at_creation: whether new DAGs are paused.
    """

    def __init__(self, folder: Path, *, paused_at_creation: bool) -> None:
        self._folder = folder
        self._paused_at_creation = paused_at_creation

    def store(self, connection: Connection, parse: Parse) -> StoredFile | None:
        """Store a parse; None when the file has changed since, as then the parse is worth nothing.

        A file that cannot be loaded leaves its DAGs as they are.
        """
        dags.lock_store(connection)
        if stamp_of(self._folder, parse.file) != parse.stamp:
            return None
        if parse.result.problem:
            message = storable(parse.result.problem.message)[:MAX_MESSAGE]
            problem = ImportProblem(message, parse.result.problem.line)
            dags.save_import_error(connection, parse.file, problem)
            return StoredFile(problem=problem)
        return self._store_dags(connection, parse.file, parse.result.dags)

    def retire(self, connection: Connection, files: Iterable[str]) -> list[str]:
        """Retire what the database holds of files that are not among `files`, and are really gone; return DAG ids."""
        dags.lock_store(connection)
        traces = dags.files_with_traces(connection) - set(files)
        gone = [file for file in sorted(traces) if stamp_of(self._folder, file) is None]
        return [dag_id for file in gone for dag_id in dags.retire_file(connection, file)]

    def _store_dags(self, connection: Connection, file: str, declared: Iterable[DeclaredDag]) -> StoredFile:
        by_id = {dag.dag_id: dag for dag in declared}
        known = dags.lock_known(connection, by_id.keys())
        clashes = {dag_id: other.file_path for dag_id, other in known.items() if _is_owned(other, file)}
        ours = [dag for dag_id, dag in by_id.items() if dag_id not in clashes]
        changed = [dag for dag in ours if not _is_same(known.get(dag.dag_id), dag, file)]
        for dag in changed:
            dags.save_dag(connection, file, dag, paused_at_creation=self._paused_at_creation)
        begun = [dag.dag_id for dag in changed if not _goes_on(known.get(dag.dag_id), dag)]
        planned = {dag.dag_id for dag in ours if dag.plan is not None}
        for dag in ours:
            if dag.dag_id in planned.union(begun):
                plans.save_plan(connection, dag)
        dags.begin_timetables(connection, begun)
        runs.plan_next(connection, planned.union(begun))
        dags.note_parsed(connection, {dag.dag_id for dag in ours})
        retired = dags.retire_undeclared(connection, file, by_id.keys())
        problem = _clash_problem(file, clashes)
        if problem:
            dags.save_import_error(connection, file, problem)
        else:
            dags.clear_import_error(connection, file)
        if changed:
            notify_schedulers(connection)
        return StoredFile(tuple(dag.dag_id for dag in changed), tuple(retired), problem)


def _is_owned(known: KnownDag, file: str) -> bool:
    return known.is_active and known.file_path != file


def _is_same(known: KnownDag | None, dag: DeclaredDag, file: str) -> bool:
    return known is not None and known.is_active and known.file_path == file and known.content_hash == dag.content_hash


def _goes_on(known: KnownDag | None, dag: DeclaredDag) -> bool:
    """Tell whether a DAG's timetable is what it was; that of a DAG that comes back begins anew."""
    return known is not None and known.is_active and known.timing == timing_of(dag.content)


def _clash_problem(file: str, clashes: dict[str, str]) -> ImportProblem | None:
    if not clashes:
        return None
    named = [
        f"DAG {dag_id!r} is declared in both {owner} and {file}; the one in {owner} counts."
        for dag_id, owner in sorted(clashes.items())[:MAX_CLASHES_NAMED]
    ]
    more = f" So are {len(clashes) - len(named)} other DAGs." if len(clashes) > len(named) else ""
    return ImportProblem(" ".join(named) + more + " Rename the DAG in one of the two files, or delete one of them.")
