"""The load of a worker, as its heartbeat reports it."""

import os
import time

from turnout.executor.roster import Roster
from turnout.executor.usage import usage_of
from turnout.metadata.processes import WorkerLoad

#: Weight of the newest second in the rate of completions.
_WEIGHT_PER_S = 0.3


#: A worker that was closed opens again at so much of the limit, so that it does not flutter.
_OPENS_AT = 0.9


class LoadMeter:
    """Measures between two heartbeats.

    Args:
        roster: the attempts held.
        max_load: the load average of the machine above which the worker takes nothing new; None for any.
        max_memory_mb: the same for the resident memory of the worker and all its processes, in MiB.
    """

    def __init__(self, roster: Roster, max_load: float | None = None, max_memory_mb: int | None = None) -> None:
        self._roster = roster
        self._max_load = max_load
        self._max_memory_mb = max_memory_mb
        self._is_closed = False
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
        load, memory_mb = round(os.getloadavg()[0], 2), usage_of(os.getpid()).memory_bytes >> 20
        closed_for = self._too_much(load, memory_mb)
        self._is_closed = closed_for is not None
        return WorkerLoad(round(self._rate, 3), load, memory_mb, closed_for)

    def _too_much(self, load: float, memory_mb: int) -> str | None:
        """Say what is above its limit."""
        share = _OPENS_AT if self._is_closed else 1
        if self._max_load is not None and load > self._max_load * share:
            return f"load {load:g}, max_load {self._max_load:g}"
        if self._max_memory_mb is not None and memory_mb > self._max_memory_mb * share:
            return f"memory {memory_mb} MiB, max_memory_mb {self._max_memory_mb}"
        return None
