"""Parse several files at the same time."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from turnout.metadata.dags import ImportProblem
from turnout.scheduler.processor.child import LastIntervals, ParseStoppedError, parse_in_child
from turnout.scheduler.processor.folder import Stamp
from turnout.scheduler.processor.parsed import Parse, ParsedFile


class ParsePool:
    """Threads that each wait for one child process.

    Args:
        folder: the DAGs folder.
        limit_s: the longest time that an import may take.
        parallel: how many files are parsed at the same time.
        on_parsed: called with every parse that ended, from its thread.
    """

    def __init__(self, folder: Path, limit_s: float, parallel: int, on_parsed: Callable[[Parse], None]) -> None:
        self._folder = folder
        self._limit_s = limit_s
        self._on_parsed = on_parsed
        self._stopping = threading.Event()
        self._threads = ThreadPoolExecutor(parallel, thread_name_prefix="parse")

    def submit(self, file: str, stamp: Stamp, last_intervals: LastIntervals) -> None:
        """Parse a file in the background, given the data interval of the last scheduled run of each of its DAGs."""
        self._threads.submit(self._parse, file, stamp, last_intervals)

    def stop(self) -> None:
        """Kill the children; returns when all threads have ended."""
        self._stopping.set()
        self._threads.shutdown(cancel_futures=True)

    def _parse(self, file: str, stamp: Stamp, last_intervals: LastIntervals) -> None:
        try:
            result = parse_in_child(self._folder, file, self._limit_s, self._stopping, last_intervals)
        except ParseStoppedError:
            return
        except Exception as error:  # noqa: BLE001  a lost parse would leave the file waiting for ever
            result = ParsedFile(problem=ImportProblem(f"{file} could not be parsed: {type(error).__name__}: {error}"))
        self._on_parsed(Parse(file, stamp, result))
