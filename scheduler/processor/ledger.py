"""What is known of the files of the DAGs folder, and which is to be parsed next."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from turnout.scheduler.processor.folder import Stamp
from turnout.scheduler.processor.parsed import ParsedFile


class FileLedger:
    """The files of the folder: waiting for a parse, being parsed, or at rest until they change or are due again.

    Files that changed go first. Files that ran out of time go last and never take the last place, so that a file that
    hangs delays no other.

    Args:
        reparse_interval_s: age after which a parse is repeated.
        parallel: how many files are parsed at the same time.
    """

    def __init__(self, reparse_interval_s: float, parallel: int) -> None:
        self._reparse_interval_s = reparse_interval_s
        self._stuck_places = max(1, parallel - 1)
        self._stamps: dict[str, Stamp] = {}
        # Dicts that keep the order in which files came.
        self._changed: dict[str, None] = {}
        self._aged: dict[str, None] = {}
        self._at_rest: dict[str, float] = {}  # when the last parse ended
        self._running: set[str] = set()
        self._results: dict[str, ParsedFile] = {}

    def see(self, listing: Mapping[str, Stamp]) -> None:
        """Take note of what is in the folder now; what changed, and what that may mend or break, is to be parsed."""
        changed = [file for file, stamp in listing.items() if self._stamps.get(file) != stamp]
        gone = self._stamps.keys() - listing.keys()
        for file in gone:
            self._forget(file)
        self._stamps = dict(listing)
        news = gone.union(changed)
        if news:
            self._request(changed)
            self._request(file for file, result in self._results.items() if result.imported & news)
            self.request_broken()

    def request_broken(self) -> None:
        """Have the files parsed again that cannot be loaded: what they lack may be there, what they clash with gone."""
        self._request(file for file, result in self._results.items() if result.problem and not result.is_stuck)

    def request(self, files: Iterable[str]) -> None:
        """Have files parsed again, if they are there, do not hang, and are not being parsed at this moment."""
        self._request(file for file in files if file not in self._running and not self._is_stuck(file))

    def take(self, now: float) -> str | None:
        """Hand out the file to parse next; None when there is none, or the places for it are taken."""
        self._age(now)
        file = next((file for file in self._waiting() if not self._is_stuck(file)), None)
        if file is None and sum(map(self._is_stuck, self._running)) < self._stuck_places:
            file = next(self._waiting(), None)
        if file is not None:
            for queue in (self._changed, self._aged, self._at_rest):
                queue.pop(file, None)
            self._running.add(file)
        return file

    def put_back(self, file: str, result: ParsedFile | None, now: float) -> None:
        """Take back a file that was parsed; without a result it is parsed once more, if it is still there."""
        self._running.discard(file)
        if file not in self._stamps:
            return
        if result is None:
            self._changed.setdefault(file)
            return
        self._results[file] = replace(result, dags=())
        self._at_rest.pop(file, None)
        self._at_rest[file] = now

    def drop(self, file: str) -> None:
        """Take back a file that was handed out and is no longer there."""
        self._running.discard(file)
        self._stamps.pop(file, None)
        self._forget(file)

    def is_idle(self) -> bool:
        """Whether no file waits or is being parsed."""
        return not (self._running or self._changed or self._aged)

    def next_due(self) -> float:
        """Say when the parse of the next file at rest is due; infinity when there is none."""
        return next(iter(self._at_rest.values()), math.inf) + self._reparse_interval_s

    def _waiting(self) -> Iterator[str]:
        return (file for queue in (self._changed, self._aged) for file in queue if file not in self._running)

    def _request(self, files: Iterable[str]) -> None:
        for file in list(files):
            if file in self._stamps:
                self._changed.setdefault(file)

    def _forget(self, file: str) -> None:
        for known in (self._changed, self._aged, self._at_rest, self._results):
            known.pop(file, None)

    def _age(self, now: float) -> None:
        """Move what has rested long enough; the order of the dict is that of the times in it."""
        while self._at_rest and next(iter(self._at_rest.values())) + self._reparse_interval_s <= now:
            file = next(iter(self._at_rest))
            del self._at_rest[file]
            self._aged.setdefault(file)

    def _is_stuck(self, file: str) -> bool:
        result = self._results.get(file)
        return result is not None and result.is_stuck
