"""Secrets in texts for people: masked as `***`."""

import json
import re
from collections.abc import Callable, Iterable

MASK = "***"
#: A shorter value is not masked: it would be found everywhere.
SHORTEST = 3


class Masker:
    """Knows secrets, and masks them.

    Args:
        secrets: those that are known from the beginning.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._listeners: list[Callable[[], None]] = []
        self.longest = 0
        for secret in secrets:
            self.add(secret)

    def __bool__(self) -> bool:
        return self._pattern is not None

    def add(self, secret: str) -> None:
        """Mask a secret from now on, each line of it by itself, also as it is written in JSON and by `repr`."""
        lines = [line.strip() for line in secret.splitlines()]
        new = {form for line in lines for form in _forms(line) if len(form) >= SHORTEST} - self._values
        if not new:
            return
        self._values = self._values | new
        longest_first = sorted(self._values, key=len, reverse=True)
        self.longest = len(longest_first[0])
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        for listener in tuple(self._listeners):
            listener()

    def mask(self, text: str) -> str:
        """Write a text with stars in place of secrets."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def mask_bytes(self, data: bytes) -> bytes:
        """Write output with stars in place of secrets."""
        if self._pattern is None:
            return data
        return self.mask(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this whenever a secret has been added."""
        self._listeners.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Call this no more."""
        self._listeners.remove(listener)


def _forms(line: str) -> Iterable[str]:
    return line, json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1], repr(line)[1:-1]
