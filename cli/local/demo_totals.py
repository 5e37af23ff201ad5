"""What the pipeline of the demo has written: counted from its files, not taken from its word."""

import csv
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Totals:
    """Departures by day and by airport, as the reports have them; and how many there are in the partitions."""

    by_day: Counter[str] = field(default_factory=Counter)
    by_airport: Counter[str] = field(default_factory=Counter)
    cancelled: Counter[str] = field(default_factory=Counter)
    in_partitions: int = 0


def read_totals(folder: Path) -> Totals:
    """Count what is in the pipeline's folder."""
    totals = Totals()
    for path in sorted(folder.glob("reports/*.csv")):
        for row in _rows(path):
            totals.by_day[path.stem] += int(row["departures"])
            totals.by_airport[row["origin"]] += int(row["departures"])
            totals.cancelled[row["origin"]] += int(row["cancelled"])
    totals.in_partitions = sum(len(_rows(path)) for path in folder.glob("departures/day=*/origin=*.csv"))
    return totals


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
