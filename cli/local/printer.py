"""Lines of several processes on one screen, each behind the name of who said it."""

import itertools
import json
import os
import sys
from pathlib import Path
from typing import TextIO

#: ANSI colours that can be read on black and on white: cyan, green, magenta, blue, yellow.
COLOURS = (36, 32, 35, 34, 33)
OWN_NAME = "turnout"


class Printer:
    """Print lines behind padded names.

    Args:
        names: those that will speak; the longest sets the width.
        stream: where to print.
        as_json: print a JSON object on every line, for programs that read them.
        colour: paint the names.
    """

    def __init__(self, names: list[str], *, stream: TextIO | None = None, as_json: bool = False, colour: bool) -> None:
        self._stream = stream or sys.stdout
        self._width = max(map(len, (*names, OWN_NAME)))
        self._as_json = as_json
        self._colour = colour
        self._colours = dict(zip(names, itertools.cycle(COLOURS), strict=False))
        #: Whether nobody reads any more.
        self.is_closed = False

    def write(self, name: str, line: str) -> None:
        """Print one line of a process."""
        self._print(_json_line(name, line) if self._as_json else f"{self._prefix(name)} {line}")

    def say(self, remark: str) -> None:
        """Print a remark of our own."""
        self.write(OWN_NAME, remark)

    def banner(self, lines: list[str]) -> None:
        """Print lines for a person who has just started us."""
        if not self._as_json:
            self._print("\n".join(lines))

    def _prefix(self, name: str) -> str:
        text = f"{name:<{self._width}} |"
        return f"\x1b[{self._colours.get(name, 1)}m{text}\x1b[0m" if self._colour else text

    def _print(self, line: str) -> None:
        if self.is_closed:
            return
        try:
            print(line, file=self._stream, flush=True)
        except OSError:
            # The terminal was closed, or `| head` has seen enough: a reason to stop, none to fail in the middle of it.
            self.is_closed = True
            # What is left in the buffer would fail once more at exit.
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())


def _json_line(name: str, line: str) -> str:
    # What a process logs is JSON already; a traceback at its start is not.
    return line if line.startswith("{") else json.dumps({"process": name, "event": line})
