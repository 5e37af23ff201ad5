"""What must be true of a day's departures before anybody may count on them."""

from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from flights.partition import read_rows

AIRPORTS = ("EWR", "JFK", "LGA")
REQUIRED = {
    *("year", "month", "day", "sched_dep_time", "dep_time", "dep_delay", "arr_delay"),
    *("carrier", "flight", "origin", "dest", "distance"),
}
#: What makes a departure one and not another; no two of 2013 share it.
KEY = ("sched_dep_time", "carrier", "flight", "origin")
#: The quietest airport-day of 2013 (LGA on 31 August) had 171: fewer than this is half a delivery, not a quiet day.
LEAST_OF_AN_AIRPORT = 100


def find_faults(path: Path, day: date, expected: int) -> list[str]:
    """Say in words what is wrong with a day's landing file; an empty list means that it is good.

    Args:
        path: the file.
        day: whose departures it must hold, and nobody else's.
        expected: how many lines were taken out of the archive.
    """
    rows = read_rows(path)
    if len(rows) != expected:
        return [f"{expected:,} departures were extracted, {len(rows):,} are there"]
    if not rows:
        return ["the archive has no departures of that day"]
    if missing := REQUIRED - set(rows[0]):
        return [f"the columns {', '.join(sorted(missing))} are missing"]
    return list(_faults_of(rows, day))


def _faults_of(rows: list[dict[str, str]], day: date) -> Iterator[str]:
    if others := {_date(row) for row in rows} - {f"{day:%Y-%m-%d}"}:
        yield f"there are departures of {', '.join(sorted(others)[:3])}"
    counts = Counter(row["origin"] for row in rows)
    if strangers := counts.keys() - set(AIRPORTS):
        yield f"{', '.join(sorted(strangers))} is no airport of New York"
    for airport in AIRPORTS:
        if counts[airport] < LEAST_OF_AN_AIRPORT:
            yield f"{airport} has only {counts[airport]} departures"
    keys = Counter(tuple(row[name] for name in KEY) for row in rows)
    if doubles := [" ".join(key) for key, count in keys.items() if count > 1]:
        yield f"{len(doubles)} departures are there more than once, such as {doubles[0]}"
    if odd := sum(not _is_delay(row[name]) for row in rows for name in ("dep_delay", "arr_delay")):
        yield f"{odd} delays are no whole minutes"


def _date(row: dict[str, str]) -> str:
    return f"{row['year']}-{row['month']:0>2}-{row['day']:0>2}"


def _is_delay(text: str) -> bool:
    return text == "NA" or text.removeprefix("-").isdecimal()
