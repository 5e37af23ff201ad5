"""Lines out of a stream of bytes."""

#: A line without an end is cut here.
LONGEST_LINE = 65_536


class LineBuffer:
    """Collect bytes, give back whole lines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Add what was read and take the lines that are complete."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) >= LONGEST_LINE:
            lines += self._cut()
        return [_text(line) for line in lines]

    def flush(self) -> list[str]:
        """Take what has no end."""
        return [_text(line) for line in self._cut()]

    def _cut(self) -> list[bytes]:
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
