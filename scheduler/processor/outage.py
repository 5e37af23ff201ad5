"""An outage of the database: said once, and tried again with growing pauses."""

import random
from typing import Any

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0


class Outage:
    """What a loop needs to live through errors that pass.

    Args:
        log: a bound logger.
        event: the name of the log event of its begin; `<event>.over` is that of its end.
    """

    def __init__(self, log: Any, event: str) -> None:
        self._log = log
        self._event = event
        self._failures = 0

    def pause_after(self, error: Exception) -> float:
        """Note a failure and return how many seconds to wait before the next try."""
        if self._failures == 0:
            self._log.warning(self._event, error=str(error))
        self._failures += 1
        pause_s = min(FIRST_PAUSE_S * 2.0 ** min(self._failures - 1, 10), LONGEST_PAUSE_S)
        return pause_s * random.uniform(0.5, 1)  # noqa: S311  jitter needs no cryptography

    def is_over(self) -> None:
        """Note a success."""
        if self._failures:
            self._log.info(f"{self._event}.over", failures=self._failures)
        self._failures = 0
