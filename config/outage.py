"""An outage: said once when it begins and once when it is over, with pauses that grow in between."""

import random
import time
from dataclasses import dataclass

import structlog

log = structlog.get_logger(__name__)

FIRST_PAUSE_S = 0.1
#: Longest pause between two tries: how late at most a loop notices that the server is back.
LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True)
class Ongoing:
    """An outage that is not over."""

    error: str  # the latest
    since: float  # by the monotonic clock


class Outage:
    """What a loop needs to live through errors that pass.

    Args:
        what: what is out of order, for the log: `database`, `broker`, …
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._failures = 0
        self.ongoing: Ongoing | None = None

    def note(self, error: Exception) -> float:
        """Take note of a failure and return how long to pause before the next try, in seconds, with jitter."""
        self._failures += 1
        if self._failures == 1:
            log.error("outage.began", what=self._what, error=str(error))
        self.ongoing = Ongoing(str(error), self.ongoing.since if self.ongoing else time.monotonic())
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self._failures, 10))
        return random.uniform(longest / 2, longest)  # noqa: S311  jitter needs no cryptography

    def over(self) -> None:
        """Take note of a success."""
        if self._failures:
            log.info("outage.over", what=self._what, failures=self._failures)
            self._failures = 0
            self.ongoing = None
