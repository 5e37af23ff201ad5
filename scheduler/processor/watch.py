"""Notice at once that something in the DAGs folder has changed."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import structlog
import watchfiles

log = structlog.get_logger(__name__)

#: The watch is known to stand after its first time-out; only then a change before it can be looked for.
READY_AFTER_MS = 500


class FolderWatch:
    """A thread that calls back after every change below a folder; a hint, for the listing is the truth.

    Args:
        folder: the folder, or a link to it; it may be missing for now.
        on_change: called from the thread; it must be quick.
    """

    def __init__(self, folder: Path, on_change: Callable[[], None]) -> None:
        self._folder = folder
        self._on_change = on_change
        self._watched: tuple[int, int] | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self) -> None:
        """Begin to watch, or begin anew when the folder has been replaced; to be called at every listing."""
        try:
            status = self._folder.stat()
        except OSError:
            return
        identity = status.st_dev, status.st_ino
        if identity == self._watched and self._thread and self._thread.is_alive():
            return
        self.stop()
        self._watched = identity
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[self._stopping], name="watch-dags", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; returns when it has ended."""
        self._stopping.set()
        if self._thread:
            self._thread.join()
            self._thread = None

    def _run(self, stopping: threading.Event) -> None:
        try:
            is_first = True
            for changes in watchfiles.watch(
                os.path.realpath(self._folder),
                watch_filter=_is_relevant,
                debounce=200,
                stop_event=stopping,
                rust_timeout=READY_AFTER_MS,
                yield_on_timeout=True,
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                if changes or is_first:
                    self._on_change()
                is_first = False
        except Exception as error:  # noqa: BLE001  whatever it is (gone folder, no inotify watches left): listings go on
            log.warning("watch.failed", folder=str(self._folder), error=str(error))


def _is_relevant(change: watchfiles.Change, path: str) -> bool:
    """Pass over Python's own caches, which every parse may write; folders come and go as a whole."""
    del change
    return "__pycache__" not in path and (path.endswith(".py") or "." not in path.rpartition("/")[2])
