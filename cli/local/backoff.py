"""How long to wait before something that died is started again."""

from dataclasses import dataclass

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 30.0
#: Whoever lived this long died of something new.
HEALTHY_AFTER_S = 60.0


@dataclass
class Backoff:
    """A delay that doubles with each early death."""

    _next_s: float = FIRST_DELAY_S

    def delay_after(self, lifetime_s: float) -> float:
        """Name the delay, in seconds, after a life of `lifetime_s` seconds."""
        if lifetime_s >= HEALTHY_AFTER_S:
            self._next_s = FIRST_DELAY_S
        delay_s, self._next_s = self._next_s, min(self._next_s * 2, LONGEST_DELAY_S)
        return delay_s
