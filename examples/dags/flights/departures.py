"""The table of departures: a partition for each day and airport."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

from flights.partition import read_rows, replace_rows

COLUMNS = ("carrier", "flight", "dest", "distance", "scheduled", "cancelled", "departure_delay", "arrival_delay")


def partition_path(folder: Path, day: date, airport: str) -> Path:
    """Name a partition of the table."""
    return folder / "departures" / f"day={day}" / f"origin={airport}.csv"


def load_airport(landed: Path, folder: Path, day: date, airport: str) -> int:
    """Replace the partition of one day and airport by what has landed; return its departures."""
    rows = [row for row in _departures(landed) if row["origin"] == airport]
    replace_rows(partition_path(folder, day, airport), COLUMNS, rows)
    return len(rows)


def _departures(landed: Path) -> Iterator[dict[str, object]]:
    for row in read_rows(landed):
        scheduled = f"{row['sched_dep_time']:0>4}"
        yield {
            **row,
            "scheduled": f"{scheduled[:2]}:{scheduled[2:]}",
            "cancelled": int(row["dep_time"] == "NA"),
            "departure_delay": row["dep_delay"].replace("NA", ""),
            "arrival_delay": row["arr_delay"].replace("NA", ""),
        }
