"""The DAG processor: keeps the DAGs of the database like those of the folder."""

import queue
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace

import structlog

from turnout.config.outage import Outage
from turnout.config.settings import Settings
from turnout.metadata import plans
from turnout.metadata.dags import ImportProblem
from turnout.metadata.engine import open_engine, transact
from turnout.metadata.errors import DatabaseUnavailableError, MetadataError, SchemaError
from turnout.metadata.migrate import require_current
from turnout.metadata.processes import Registration
from turnout.scheduler.lease import Lease
from turnout.scheduler.processor.folder import list_files, stamp_of
from turnout.scheduler.processor.ledger import FileLedger
from turnout.scheduler.processor.parsed import Parse, ParsedFile
from turnout.scheduler.processor.pool import ParsePool
from turnout.scheduler.processor.storing import FileStore, StoredFile
from turnout.scheduler.processor.watch import FolderWatch

log = structlog.get_logger(__name__)

#: How often a folder that is not there is looked for.
MISSING_FOLDER_LOOK_S = 1.0
#: A paused processor gives up its locks after this long.
IDLE_IN_TRANSACTION_S = 30.0


@dataclass
class Pass:
    """What one pass over the folder did.

    Attributes:
        parsed: the files that were parsed, in the order in which they were stored.
        changed: the DAGs that appeared, changed, or came back.
        retired: the DAGs that no file declares any longer.
        problems: by file, why it cannot be loaded.
    """

    parsed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    problems: dict[str, ImportProblem] = field(default_factory=dict)


class DagProcessor:
    """Watches the DAGs folder, parses what changed in processes of their own, and stores what it finds.

    Args:
        settings: the settings; they name the folder, the database and the limits.
        name: what the process is called in the registry.
    """

    def __init__(self, settings: Settings, name: str = "dag-processor") -> None:
        limits = settings.processor
        url = settings.database.get_secret_value()
        self._folder = settings.dags_path.absolute()
        self._scan_interval_s = limits.scan_interval_s
        self._parallel = limits.parallel
        self._engine = open_engine(url, name=name, idle_in_transaction_s=IDLE_IN_TRANSACTION_S)
        self._lease = Lease(url, Registration("dag_processor", name, settings.scheduler.lease_s))
        self._ledger = FileLedger(limits.reparse_interval_s, limits.parallel)
        self._store = FileStore(self._folder, paused_at_creation=settings.dags_are_paused_at_creation)
        self._news: queue.SimpleQueue[Parse | None] = queue.SimpleQueue()  # None: look at the folder, or stop
        self._pool = ParsePool(self._folder, limits.import_timeout_s, limits.parallel, self._news.put)
        self._watch = FolderWatch(self._folder, lambda: self._news.put(None))
        self._outage = Outage("database")
        self._missing = Outage("DAGs folder")
        self._to_store: deque[Parse] = deque()
        self._parsing = 0
        self._next_look = 0.0
        self._problems: dict[str, ImportProblem] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dag-processor", daemon=True)

    def start(self) -> None:
        """Register and begin to work in the background.

        Raises:
            DatabaseUnavailableError: the database cannot be reached.
            SchemaError: its tables are not those of this version.
        """
        require_current(self._engine)
        self._lease.start()
        self._thread.start()

    def stop(self) -> None:
        """End all children, threads and connections; a second call does nothing."""
        self._stopping.set()
        self._news.put(None)
        self._pool.stop()
        self._watch.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._lease.stop()
        self._engine.dispose()

    def run_once(self) -> Pass:
        """Look at the folder, parse all that is due, store it, and return when nothing is left to do.

        Raises:
            MetadataError: the database cannot be used.
        """
        done = Pass()
        self._next_look = 0.0
        self._step(done)
        while not self._ledger.is_idle():
            self._wait(None)
            self._step(done)
        return done

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._step(Pass())
                self._outage.over()
                self._wait(max(0.0, min(self._next_look, self._ledger.next_due()) - time.monotonic()))
            except MetadataError as error:
                self._stopping.wait(self._outage.note(error))
            except Exception as error:  # a mistake of ours must not stop all other files
                log.exception("processor.failed")
                self._stopping.wait(self._outage.note(error))

    def _step(self, done: Pass) -> None:
        if self._next_look <= time.monotonic():
            self._look(done)
        while self._to_store and not self._stopping.is_set():
            self._store_parse(self._to_store[0], done)
            self._to_store.popleft()
        while self._parsing < self._parallel and (file := self._ledger.take(time.monotonic())):
            self._parse(file)

    def _look(self, done: Pass) -> None:
        self._watch.follow()
        try:
            listing = list_files(self._folder)
        except OSError as error:
            self._missing.note(error)
            self._next_look = time.monotonic() + MISSING_FOLDER_LOOK_S
            return
        self._missing.over()
        self._ledger.see(listing)
        retired = transact(self._engine, lambda connection: self._store.retire(connection, listing))
        self._ledger.request(transact(self._engine, plans.files_to_plan))
        self._next_look = time.monotonic() + self._scan_interval_s
        self._note_retired(retired, done)

    def _parse(self, file: str) -> None:
        stamp = stamp_of(self._folder, file)
        if stamp is None:  # gone since the listing; the next one will say so
            self._ledger.drop(file)
            return
        try:
            last_intervals = transact(self._engine, lambda connection: plans.last_intervals(connection, file))
        except MetadataError:
            self._ledger.put_back(file, None, time.monotonic())
            raise
        self._parsing += 1
        self._pool.submit(file, stamp, last_intervals)

    def _wait(self, timeout_s: float | None) -> None:
        """Wait for news, and take all that there are: one look serves for any number of changes."""
        try:
            self._take(self._news.get(timeout=timeout_s))
            while True:
                self._take(self._news.get_nowait())
        except queue.Empty:
            return

    def _take(self, news: Parse | None) -> None:
        if news is None:
            self._next_look = 0.0
        else:
            self._parsing -= 1
            self._to_store.append(news)

    def _store_parse(self, parse: Parse, done: Pass) -> None:
        stored = self._store_or_blame(parse)
        if stored is None:
            self._ledger.put_back(parse.file, None, time.monotonic())
            return
        self._ledger.put_back(parse.file, replace(parse.result, problem=stored.problem), time.monotonic())
        self._note_stored(parse.file, stored, done)

    def _store_or_blame(self, parse: Parse) -> StoredFile | None:
        """Store a parse; when the database refuses what is in it, that is an import error of this file alone."""
        try:
            return transact(self._engine, lambda connection: self._store.store(connection, parse))
        except (DatabaseUnavailableError, SchemaError):
            raise
        except Exception as error:  # noqa: BLE001  an error that is not the file's fault repeats itself right below
            blamed = replace(parse, result=ParsedFile(problem=ImportProblem(f"{parse.file} cannot be stored: {error}")))
            return transact(self._engine, lambda connection: self._store.store(connection, blamed))

    def _note_stored(self, file: str, stored: StoredFile, done: Pass) -> None:
        done.parsed.append(file)
        done.changed.extend(stored.changed)
        if stored.changed:
            log.info("file.stored", file=file, dags=list(stored.changed))
        self._note_problem(file, stored.problem, done)
        self._note_retired(list(stored.retired), done)

    def _note_problem(self, file: str, problem: ImportProblem | None, done: Pass) -> None:
        before = self._problems.pop(file, None)
        if problem:
            done.problems[file] = self._problems[file] = problem
        else:
            done.problems.pop(file, None)
        if problem and problem != before:
            log.warning("file.failed", file=file, line=problem.line, error=problem.message)
        elif before and not problem:
            log.info("file.mended", file=file)

    def _note_retired(self, retired: list[str], done: Pass) -> None:
        if not retired:
            return
        log.info("dags.retired", dags=retired)
        done.retired.extend(retired)
        self._ledger.request_broken()  # another file may have waited for one of these ids
