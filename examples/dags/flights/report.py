"""The report: how the carriers of each airport kept to their timetable, for a day or longer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from flights.partition import read_rows, replace_rows

COLUMNS = ("origin", "carrier", "departures", "cancelled", "arrived", "on_time", "delay_minutes")
#: A flight is on time when it arrives less than 15 minutes late (the rule of the US Department of Transportation).
LATE_MINUTES = 15


@dataclass
class Line:
    """One carrier at one airport; every figure can be added up over days."""

    departures: int = 0
    cancelled: int = 0
    arrived: int = 0
    on_time: int = 0
    delay_minutes: int = 0  # of arrival, earlier ones counting against later ones

    def add_departure(self, row: Mapping[str, str]) -> None:
        """Count one departure."""
        self.departures += 1
        self.cancelled += int(row["cancelled"])
        if row["arrival_delay"]:
            delay = int(row["arrival_delay"])
            self.arrived += 1
            self.on_time += delay < LATE_MINUTES
            self.delay_minutes += delay

    def add_line(self, row: Mapping[str, str]) -> None:
        """Add the same carrier's line of another report."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + int(row[name]))


Report = dict[tuple[str, str], Line]


def report_departures(partitions: Mapping[str, Path]) -> Report:
    """Make the report of some partitions, given by airport."""
    report: Report = {}
    for airport, path in partitions.items():
        for row in read_rows(path):
            report.setdefault((airport, row["carrier"]), Line()).add_departure(row)
    return report


def sum_reports(paths: Iterable[Path]) -> Report:
    """Add up reports."""
    report: Report = {}
    for path in paths:
        for row in read_rows(path):
            report.setdefault((row["origin"], row["carrier"]), Line()).add_line(row)
    return report


def write_report(path: Path, report: Report) -> None:
    """Write a report in place of the one that may be there, and print it."""
    rows = [
        {"origin": airport, "carrier": carrier, **vars(line)} for (airport, carrier), line in sorted(report.items())
    ]
    replace_rows(path, COLUMNS, rows)
    print("airport carrier departures cancelled on time  mean delay")
    for (airport, carrier), line in sorted(report.items()):
        arrived = line.arrived or 1
        print(
            f"{airport:<7} {carrier:<7} {line.departures:>10,} {line.cancelled:>9,} {line.on_time / arrived:>7.1%} "
            f"{line.delay_minutes / arrived:>7.1f} min"
        )


def total_departures(report: Report) -> int:
    """Count the departures of a report."""
    return sum(line.departures for line in report.values())
