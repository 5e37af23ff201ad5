"""How a table is laid out: as it is, narrower, or apart into a block for every row."""

import re
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Wide enough that a table in a pipe or file has one line a row.
PIPE_WIDTH = 10_000

_GAP = 2
#: Narrower than this, a text of many words is a column of single words.
_READABLE = 16
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)Z")

Row = Sequence[Text]


def lay_out_table(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Lay out a table so that it loses nothing and breaks no word; a row becomes a block where that is too wide."""
    console = _console()
    room = console.width - _GAP * (len(names) - 1)
    for cells in (rows, [list(map(_breakable, row)) for row in rows]):
        columns = list(zip(*cells, strict=True)) or [()] * len(names)
        least = [
            max([*map(len, _parts(name)), *map(_least, column)]) for name, column in zip(names, columns, strict=True)
        ]
        if sum(least) <= room:
            wanted = [
                max([len(name), *map(_longest_line, column)]) for name, column in zip(names, columns, strict=True)
            ]
            return _table(console, names, cells, _shared(room, wanted, least))
    return _blocks(console, names, rows)


def lay_out_record(names: Sequence[str], values: Row) -> list[str]:
    """Lay out one thing: a line for every field."""
    return _record(_console(), names, values)


def _shared(room: int, wanted: Sequence[int], least: Sequence[int]) -> list[int]:
    """Give each column what it wants, and take from the widest that can spare some until all have room."""
    widths = [min(width, room) for width in wanted]
    while sum(widths) > room:
        _, widest = max((width, number) for number, width in enumerate(widths) if width > least[number])
        widths[widest] -= 1
    return widths


def _folded(name: str, width: int) -> str:
    """Break the name of a column after an underscore where it must be broken."""
    lines = [""]
    for part in _parts(name):
        if len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(filter(None, lines))


def _parts(name: str) -> list[str]:
    return re.findall(r"[^_]*_+|[^_]+", name)


def _breakable(cell: Text) -> Text:
    """Let a time go on in the next line after its date."""
    time = _TIME.fullmatch(cell.plain)
    return cell if time is None else Text(f"{time[1]}\n{time[2]}Z", style=cell.style)


def _longest_line(cell: Text) -> int:
    return max(line.cell_len for line in cell.split(allow_blank=True))


def _least(cell: Text) -> int:
    """Return the width of the longest word, and for a text of many words one in which it can be read."""
    longest = max((Text(word).cell_len for word in cell.plain.split()), default=0)
    return max(longest, min(_longest_line(cell), _READABLE))


def _table(console: Console, names: Sequence[str], rows: Sequence[Row], widths: Sequence[int]) -> list[str]:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for name, width in zip(names, widths, strict=True):
        table.add_column(_folded(name, width), width=width, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return _lines(console, table)


def _blocks(console: Console, names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    lines: list[str] = []
    for row in rows:
        lines += ["", *_record(console, names, row)]
    return lines[1:]


def _record(console: Console, names: Sequence[str], values: Row) -> list[str]:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in zip(names, values, strict=True):
        table.add_row(name, value)
    return _lines(console, table)


def _lines(console: Console, table: Table) -> list[str]:
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
