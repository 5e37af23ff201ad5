"""The departures from New York's airports, a day at a time: extract, validate, load, report.

Each run is bound to the day of its data interval, and writes below one folder, `~/flights` unless `FLIGHTS_FOLDER`
(in the environment of the DAG processor and the workers) or the conf of a run (`{"folder": …}`) names another one:

    landing/2013-01-01.csv                      the day as the archive has it
    departures/day=2013-01-01/origin=EWR.csv    checked and cleaned; a re-run replaces the partition as a whole
    reports/2013-01-01.csv                      a line for every airport and carrier

It needs `pip install 'turnout[examples]'`, a pool for the loads, and workers for both queues, since Newark, the busiest
airport, has a queue to itself:

    turnout pools set warehouse 2
    turnout worker -q heavy             # `turnout up` runs one of the queue `default`
    turnout dags unpause flights_daily  # catches up on the 365 days of 2013

`python flights_daily.py` runs the first day in one process, without any server.
"""

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from flights.archive import read_day
from flights.checks import AIRPORTS, find_faults
from flights.departures import load_airport, partition_path
from flights.partition import replacing
from flights.report import report_departures, total_departures, write_report

from turnout.tasks import TaskFailed, dag, task

FOLDER = os.environ.get("FLIGHTS_FOLDER", "~/flights")
#: The last day to catch up on; the archive ends with 2013.
LAST_DAY = datetime.fromisoformat(os.environ.get("FLIGHTS_LAST_DAY", "2013-12-31")).replace(tzinfo=UTC)
QUEUES = {"EWR": "heavy", "JFK": "default", "LGA": "default"}


@dag(
    schedule="@daily",
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    end_date=LAST_DAY,
    catchup=True,
    max_active_runs=8,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30), "execution_timeout": timedelta(minutes=5)},
    tags=["example", "flights"],
)
def flights_daily(folder: str = FOLDER) -> None:
    """Daily departures from New York, per airport and carrier: extract → validate → load → report."""
    landed = extract("{{ ds }}", folder)
    checked = validate("{{ ds }}", landed)
    loaded = {
        airport: load.override(task_id=f"load_{airport.lower()}", queue=QUEUES[airport])(
            "{{ ds }}", folder, airport, checked
        )
        for airport in AIRPORTS
    }
    report("{{ ds }}", folder, landed, loaded)


@task
def extract(day: str, folder: str) -> dict[str, Any]:
    """Take the day out of the archive, as it is."""
    lines = list(read_day(date.fromisoformat(day)))
    path = Path(folder).expanduser() / "landing" / f"{day}.csv"
    with replacing(path) as file:
        file.writelines(lines)
    return {"path": str(path), "departures": len(lines) - 1}


@task
def validate(day: str, landed: dict[str, Any]) -> str:
    """Let nothing through that is incomplete, doubled or of another day."""
    faults = find_faults(Path(landed["path"]), date.fromisoformat(day), landed["departures"])
    if faults:
        # Not worth another try: the same file would be just as wrong.
        raise TaskFailed(f"{landed['path']} cannot be loaded: {'; '.join(faults)}.")
    return str(landed["path"])


@task(pool="warehouse")
def load(day: str, folder: str, airport: str, path: str) -> int:
    """Replace the day's partition of one airport."""
    return load_airport(Path(path), Path(folder).expanduser(), date.fromisoformat(day), airport)


@task
def report(day: str, folder: str, landed: dict[str, Any], loaded: dict[str, int]) -> int:
    """Report on every airport and carrier, once all that landed is found in the partitions."""
    root = Path(folder).expanduser()
    made = report_departures({airport: partition_path(root, date.fromisoformat(day), airport) for airport in loaded})
    if total_departures(made) != landed["departures"]:
        raise ValueError(f"{landed['departures']} departures landed, {total_departures(made)} were loaded: {loaded}")
    write_report(root / "reports" / f"{day}.csv", made)
    return total_departures(made)


daily = flights_daily()

if __name__ == "__main__":
    daily.test(logical_date=daily.start_date)
