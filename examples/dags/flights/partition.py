"""A partition: one CSV file that is there as a whole or not at all, whoever writes it and however often."""

import csv
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Write a partition during a `with` block; it takes the place of the one that may be there when all went well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: an attempt that was given up for lost may still be writing beside the one that replaced it.
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with draft.open("w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def replace_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a partition of rows; what they hold beside the columns is left out."""
    with replacing(path) as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a partition."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
