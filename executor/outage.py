"""An outage: logged once when it begins and once when it is over, with pauses that grow in between."""

import random

import structlog

log = structlog.get_logger(__name__)

_FIRST_PAUSE_S = 0.1
#: Longest pause between two tries: how late at most a worker notices that the database is back.
_LONGEST_PAUSE_S = 5.0


class Outage:
    """Counts the failures of one thing in a row.

    Args:
        server: what is away, for the log.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._failures = 0

    def note(self, error: Exception) -> float:
        """Take note of a failure and return how long to pause, in seconds, with jitter."""
        self._failures += 1
        if self._failures == 1:
            log.error("server.unavailable", server=self._server, error=str(error))
        longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(self._failures, 10))
        return random.uniform(longest / 2, longest)  # noqa: S311  jitter needs no cryptography

    def over(self) -> None:
        """Take note of a success."""
        if self._failures:
            log.info("server.back", server=self._server, failures=self._failures)
            self._failures = 0
