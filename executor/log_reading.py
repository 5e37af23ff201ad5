"""Reading logs from where the settings say that they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from turnout.config.masking import Masker
from turnout.config.settings import Settings
from turnout.executor.log_store import LogStore, StoredTail
from turnout.executor.logs import LogEntry, LogTail


class Tail(Protocol):
    """The log of an attempt, read piece by piece."""

    where: str

    def read(self, *, to_the_end: bool) -> Iterator[LogEntry]:
        """Read what has come since the last call."""

    def is_whole(self) -> bool:
        """Tell whether everything that the attempt said can be read now, if it has ended."""

    def exists(self) -> bool:
        """Tell whether there is a log at all."""


class Logs:
    """The logs of all attempts.

    `masker` masks what nobody must read in them, and subprocesses may have written all the same.

    Args:
        settings: where they are.

    Raises:
        LogStoreError: there is no such kind of store, or its package is not installed.
    """

    def __init__(self, settings: Settings) -> None:
        self.masker = Masker(settings.passwords())
        self._folder = settings.logs_path
        self._store = None if settings.logs_url is None else LogStore(settings.logs_url.get_secret_value())

    def tail(self, name: Path) -> Tail:
        """Open the log of a name, see `log_name`."""
        local = LogTail(self._folder / name)
        if self._store is None:
            return local
        return StoredTail(self._store, name.with_suffix("").as_posix(), local)
