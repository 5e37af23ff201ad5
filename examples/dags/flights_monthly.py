"""The month's report of the departures from New York's airports, added up from the reports of `flights_daily`.

It writes `monthly/2013-01.csv` into the folder of `flights_daily`, whose variables `FLIGHTS_FOLDER` and conf it shares.
Every day of the month must have been reported: until then the task fails and tries again, every hour.
"""

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from flights.report import sum_reports, total_departures, write_report

from turnout.tasks import dag, task

FOLDER = os.environ.get("FLIGHTS_FOLDER", "~/flights")


@dag(
    schedule="@monthly",
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    end_date=datetime(2013, 12, 31, tzinfo=UTC),
    catchup=True,
    default_args={"retries": 3, "retry_delay": timedelta(hours=1)},
    tags=["example", "flights"],
)
def flights_monthly(folder: str = FOLDER) -> None:
    """Monthly departures from New York, per airport and carrier."""
    report_month("{{ data_interval_start | ds }}", "{{ data_interval_end | ds }}", folder)


@task
def report_month(first: str, end: str, folder: str) -> int:
    """Add up the reports of every day from the first to the one before the end."""
    root = Path(folder).expanduser()
    begin = date.fromisoformat(first)
    days = [begin + timedelta(days=number) for number in range((date.fromisoformat(end) - begin).days)]
    paths = {f"{day}": root / "reports" / f"{day}.csv" for day in days}
    if missing := [day for day, path in paths.items() if not path.exists()]:
        raise FileNotFoundError(f"{len(missing)} days have no report yet, the first is {missing[0]}")
    made = sum_reports(paths.values())
    write_report(root / "monthly" / f"{begin:%Y-%m}.csv", made)
    return total_departures(made)


monthly = flights_monthly()

if __name__ == "__main__":
    monthly.test(logical_date=monthly.start_date)
