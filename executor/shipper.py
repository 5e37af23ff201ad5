"""Shipping: what children write to the spool goes to the store of logs, in parts, about once a second."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import structlog

from turnout.config.masking import Masker
from turnout.config.outage import Outage
from turnout.executor.log_store import LogStore, LogStoreError, part_name
from turnout.executor.roster import Roster
from turnout.executor.service import Service
from turnout.executor.spool import Spool, SpooledLog

log = structlog.get_logger(__name__)

#: A worker that is killed takes along at most what was said since the last pass.
INTERVAL_S = 1.0
#: Time between two looks for what dead workers have left on this machine.
_TAKE_OVER_PASSES = 30
#: What one write to the store holds at most, so that a pass does not take long, and memory stays small.
_BATCH_PARTS = 100
_BATCH_BYTES = 16 << 20
_PART_BYTES = 4 << 20
#: A line that has not ended is sent when it has grown to so many bytes.
_LONGEST_LINE = 128 << 10


@dataclass(frozen=True)
class Part:
    """A part of a log, about to be shipped."""

    log: SpooledLog
    data: bytes
    is_last: bool  # of its log
    has_more: bool  # behind it, there is enough for another one now

    @property
    def name(self) -> str:
        """Its name in the store."""
        return f"{self.log.folder}/{part_name(self.log.parts + 1, is_last=self.is_last)}"


class Shipper(Service):
    """The thread that ships. Nothing waits for it, and whatever the store does costs at most entries of logs.

    Args:
        store: where the logs go.
        spool: where they come from.
        roster: the attempts held; one that is not has said all that it has to say.
        masker: knows what nobody must read there, whoever has written it.
        max_log_bytes: largest size of a log.
        max_spool_bytes: what may wait in the spool before the oldest logs are given up.
    """

    def __init__(
        self,
        store: LogStore,
        spool: Spool,
        roster: Roster,
        masker: Masker,
        *,
        max_log_bytes: int,
        max_spool_bytes: int,
    ) -> None:
        super().__init__("shipper")
        self._store = store
        self._spool = spool
        self._roster = roster
        self._masker = masker
        self._max_log_bytes = max_log_bytes
        self._max_bytes = max_spool_bytes
        self._outage = Outage("log store")
        self._has_given_up = False

    def run(self) -> None:
        """Ship until stopped, and then what is left."""
        passes = 0
        while not self._stopping.is_set():
            if passes % _TAKE_OVER_PASSES == 0:
                self._spool.take_over()
            passes += 1
            self._stopping.wait(self._pass())
        if not self._outage.ongoing:
            self._pass()
        self._spool.close()

    def run_once(self) -> int:
        """Ship what there is; return the number of parts.

        Raises:
            LogStoreError: the store is away; what it did not take waits in the spool.
        """
        count = 0
        waiting = deque(self._spool.logs())
        # After the listing: a log is there only after its attempt was held, so one that is not held now has ended.
        running = self._running()
        while parts := list(_take(waiting, running, self._max_log_bytes)):
            self._store.put({part.name: self._masker.mask_bytes(part.data) for part in parts})
            for part in parts:
                if part.is_last:
                    part.log.delete()
                else:
                    part.log.note_sent(len(part.data))
                if part.has_more:
                    waiting.append(part.log)
            count += len(parts)
        return count

    def _pass(self) -> float:
        """Make one pass; return how long to pause."""
        try:
            self.run_once()
        except LogStoreError as error:
            self._give_up_oldest()
            return self._outage.note(error)
        self._outage.over()
        self._has_given_up = False
        return INTERVAL_S

    def _give_up_oldest(self) -> None:
        """Make room when the store has been away for long: a full disk would cost more than old logs."""
        spooled = self._spool.logs()
        running = self._running()
        total = sum(one.waiting_bytes() for one in spooled)
        # Ids of attempts are in the order of time.
        for one in sorted((one for one in spooled if one.attempt_id not in running), key=lambda one: one.attempt_id):
            if total <= self._max_bytes:
                return
            if not self._has_given_up:
                log.error("logs.given_up", first=one.folder, max_bytes=self._max_bytes)
            self._has_given_up = True
            total -= one.waiting_bytes()
            one.delete()

    def _running(self) -> set[str]:
        return {str(attempt.claimed.attempt_id) for attempt in self._roster.running()}


def _take(waiting: deque[SpooledLog], running: set[str], max_log_bytes: int) -> Iterator[Part]:
    """Take the next parts of logs, as many as make up one write to the store."""
    count = size = 0
    while waiting and count < _BATCH_PARTS and size < _BATCH_BYTES:
        spooled = waiting.popleft()
        part = _next_part(spooled, max_log_bytes, has_ended=spooled.attempt_id not in running)
        if part is not None:
            count += 1
            size += len(part.data)
            yield part


def _next_part(spooled: SpooledLog, max_log_bytes: int, *, has_ended: bool) -> Part | None:
    data = spooled.read(spooled.offered or _PART_BYTES + 1, max_log_bytes)
    if spooled.offered:
        return Part(spooled, data, is_last=False, has_more=True)
    is_last = has_ended and len(data) <= _PART_BYTES
    if not is_last:
        spooled.offered = _until_line_end(data[:_PART_BYTES])
    if not (is_last or spooled.offered):
        return None
    return Part(spooled, data[: spooled.offered or None], is_last, has_more=len(data) > _PART_BYTES)


def _until_line_end(data: bytes) -> int:
    """Return how much of this to ship: whole lines, unless one is very long."""
    return data.rfind(b"\n") + 1 or len(data) * (len(data) > _LONGEST_LINE)
