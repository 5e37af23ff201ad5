"""DAG files as a child has them: imported once, and again only when they changed."""

from collections.abc import Callable
from pathlib import Path

from turnout.executor.logging_state import kept_loggers_enabled
from turnout.tasks import DAG
from turnout.tasks.errors import DagFileError
from turnout.tasks.loading import load_file
from turnout.tasks.timeouts import alarm

#: What tells one content of a file from another: modification time in nanoseconds, and size.
_Stamp = tuple[int, int]


class ImportTimeoutError(BaseException):
    """The import takes too long; not an Exception, so that a file's `except Exception` does not swallow it."""


class DagFiles:
    """The DAG files that this process has imported."""

    def __init__(self) -> None:
        self._loaded: dict[Path, tuple[_Stamp, list[DAG]]] = {}

    def load(self, path: Path, root: Path, timeout_s: float, on_import: Callable[[str], None]) -> list[DAG]:
        """Return the DAGs of a file.

        Args:
            path: the file.
            root: the DAGs folder.
            timeout_s: longest time for the import, in seconds.
            on_import: told `importing` and `imported` when the file has to be imported.

        Raises:
            DagFileError: the file is not there, or wrong.
            ImportTimeoutError: the import took too long.
        """
        try:
            status = path.stat()
        except OSError as error:
            raise DagFileError(f"Cannot read {path}: {error.strerror}.") from None
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._loaded.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        on_import("importing")
        with kept_loggers_enabled(), alarm(timeout_s, ImportTimeoutError()):
            dags = load_file(path, root)
        on_import("imported")
        self._loaded[path] = (stamp, dags)
        return dags
