"""The load of a worker, as its heartbeat reports it."""

import os
import time

import psutil

from turnout.executor.roster import Roster
from turnout.metadata.processes import WorkerLoad

#: Weight of the newest second in the rate of completions.
_WEIGHT_PER_S = 0.3


class LoadMeter:
    """Measures between two heartbeats."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._process = psutil.Process()
        self._finished = 0
        self._at = time.monotonic()
        self._rate = 0.0

    def measure(self) -> WorkerLoad:
        """Return completions per second (moving average), the machine's load average, and memory of all processes."""
        now, finished = time.monotonic(), self._roster.finished
        elapsed = max(now - self._at, 0.001)
        weight = 1 - (1 - _WEIGHT_PER_S) ** elapsed
        self._rate += weight * ((finished - self._finished) / elapsed - self._rate)
        self._at, self._finished = now, finished
        return WorkerLoad(round(self._rate, 3), round(os.getloadavg()[0], 2), self._memory_mb())

    def _memory_mb(self) -> int:
        total = 0
        for process in (self._process, *self._process.children(recursive=True)):
            try:
                total += process.memory_info().rss
            except psutil.Error:  # it ended meanwhile
                continue
        return total >> 20
