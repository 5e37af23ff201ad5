"""The diary of a loop: when it last ended a pass, and what it did in the last one that had work."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnout.config.outage import Ongoing
from turnout.metadata.processes import LoopReport, Trouble

#: How many things that are left alone are told; the log has them all.
MOST_REFUSED = 20


@dataclass(frozen=True)
class _Entry:
    ended_at: float
    worked_at: float
    did: Mapping[str, Any]


class Diary:
    """Kept by the loop, read by the lease, whose renewals carry it into the registry."""

    def __init__(self) -> None:
        self._entry: _Entry | None = None

    def note(self, did: Mapping[str, Any], *, did_something: bool) -> None:
        """Note that a pass has ended, and what it did unless that was nothing."""
        now = time.monotonic()
        if did_something or self._entry is None:
            self._entry = _Entry(now, now, did)
        else:
            self._entry = _Entry(now, self._entry.worked_at, self._entry.did)

    def report(self, broker_outage: Ongoing | None = None, refused: Sequence[Trouble] = ()) -> LoopReport | None:
        """Tell what was noted last, and what cannot be done now; nothing before the first pass has ended."""
        entry, now = self._entry, time.monotonic()
        if entry is None:
            return None
        broker = [Trouble("broker", broker_outage.error, now - broker_outage.since)] if broker_outage else []
        return LoopReport(
            json.dumps(dict(entry.did)), now - entry.worked_at, now - entry.ended_at, [*broker, *refused[:MOST_REFUSED]]
        )
