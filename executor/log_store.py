"""The store of logs: any file system that fsspec knows, where the log of an attempt is a folder of numbered parts.

Object stores cannot append. So what an attempt says goes there in parts, `000001.jsonl`, `000002.jsonl`, …; the last
one is `000003.end.jsonl`, by which readers know that nothing more will come.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from turnout.config.errors import TurnoutError
from turnout.config.urls import without_password
from turnout.executor.logs import LogEntry, LogTail, parse_line

_PART = re.compile(r"(\d{6,})(\.end)?\.jsonl")


class LogStoreError(TurnoutError):
    """The store of logs cannot be used."""


def part_name(number: int, *, is_last: bool) -> str:
    """Name a part of a log."""
    return f"{number:06}{'.end' if is_last else ''}.jsonl"


class LogStore:
    """Reads and writes parts of logs.

    Args:
        url: where the logs are; anything that fsspec understands.

    Raises:
        LogStoreError: there is no such kind of store, or its package is not installed.
    """

    def __init__(self, url: str) -> None:
        import fsspec  # noqa: PLC0415  only where a store is used

        self._shown = without_password(url)
        try:
            self._files, self._root = fsspec.url_to_fs(url)
        except Exception as error:
            raise LogStoreError(f"Cannot use TURNOUT_LOGS_URL={self._shown}: {_reason(error)}.") from error

    def put(self, parts: Mapping[str, bytes]) -> None:
        """Write parts, by their names below the store; each one appears as a whole or not at all.

        Raises:
            LogStoreError: not all of them could be written; it does no harm to write them again.
        """
        try:
            if self._files.async_impl:  # an object store: all at the same time
                self._files.pipe({self._at(name): data for name, data in parts.items()})
            else:
                for name, data in parts.items():
                    self._put_by_renaming(self._at(name), data)
        except Exception as error:
            raise LogStoreError(f"Cannot write to the log store {self._shown}: {_reason(error)}.") from error

    def check(self) -> None:
        """Write a small file, as nothing less tells whether workers will be able to.

        Raises:
            LogStoreError: they will not.
        """
        self.put({".turnout-check": b""})

    def list_parts(self, folder: str) -> list[str]:
        """List the names of the parts in a folder, the first one first; none when there is no such folder.

        Raises:
            LogStoreError: the store did not answer.
        """
        try:
            self._files.invalidate_cache()
            found = self._files.ls(self._at(folder), detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except Exception as error:
            raise self._unreadable(error) from error
        names = (PurePosixPath(path).name for path in found)
        # Of two with the same number, which a worker that was killed may leave, the last one has more.
        numbered = {name.partition(".")[0]: name for name in sorted(names, reverse=True) if _PART.fullmatch(name)}
        return sorted(numbered.values())

    def read(self, name: str) -> bytes:
        """Read a part.

        Raises:
            LogStoreError: the store did not answer.
        """
        try:
            data: bytes = self._files.cat_file(self._at(name))
        except Exception as error:
            raise self._unreadable(error) from error
        return data

    def where(self, folder: str) -> str:
        """Write the address of a folder, for people."""
        return f"{self._shown.rstrip('/')}/{folder}"

    def _put_by_renaming(self, path: str, data: bytes) -> None:
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._files.pipe_file(f"{path}.tmp", data)
        self._files.mv(f"{path}.tmp", path)

    def _at(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _unreadable(self, error: Exception) -> LogStoreError:
        return LogStoreError(f"Cannot read from the log store {self._shown}: {_reason(error)}.")


class StoredTail:
    """The log of an attempt in the store, read piece by piece.

    Args:
        store: the store.
        folder: the folder of the log's parts.
        local: the file that would be the log if it was written before there was a store.
    """

    def __init__(self, store: LogStore, folder: str, local: LogTail) -> None:
        self.where = store.where(folder)
        self._store = store
        self._folder = folder
        self._local = local
        self._parts_read = 0
        self._is_over = False
        self._rest = b""

    def read(self, *, to_the_end: bool) -> Iterator[LogEntry]:
        """Read what has come since the last call; see `LogTail.read`."""
        parts = [] if self._is_over else self._store.list_parts(self._folder)
        if not parts and not self._parts_read:
            yield from self._local.read(to_the_end=to_the_end)
            return
        for part in parts[self._parts_read :]:
            *lines, self._rest = (self._rest + self._store.read(f"{self._folder}/{part}")).split(b"\n")
            self._parts_read += 1
            self._is_over = _is_last(part)
            for line in lines:
                yield from parse_line(line)
        if self._rest and to_the_end:
            rest, self._rest = self._rest, b""
            yield from parse_line(rest)

    def is_whole(self) -> bool:
        """Tell whether everything that the attempt said can be read now."""
        parts = [] if self._is_over else self._store.list_parts(self._folder)
        return self._is_over or (_is_last(parts[-1]) if parts else self._local.exists())

    def exists(self) -> bool:
        """Tell whether there is a log at all."""
        return self._parts_read > 0 or bool(self._store.list_parts(self._folder)) or self._local.exists()


def _is_last(part: str) -> bool:
    return part.endswith(".end.jsonl")


def _reason(error: Any) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
