"""The example DAGs, loaded as the platform loads them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from turnout.tasks import DAG
from turnout.tasks.loading import load_file
from turnout.tasks.trial import TrialResult

EXAMPLES = Path(__file__).parents[3] / "examples" / "dags"


class Flights:
    """The DAGs of the flights, and the folder that they write into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (self.daily,) = load_file(EXAMPLES / "flights_daily.py")
        (self.monthly,) = load_file(EXAMPLES / "flights_monthly.py")

    def run_day(self, day: int = 1) -> TrialResult:
        """Run `flights_daily` for a day of January."""
        return self._run(self.daily, day)

    def run_month(self) -> TrialResult:
        """Run `flights_monthly` for January."""
        return self._run(self.monthly, 1)

    def files(self, pattern: str) -> dict[str, bytes]:
        """Read what was written, by path."""
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.glob(pattern)}

    def _run(self, dag: DAG, day: int) -> TrialResult:
        return dag.test(datetime(2013, 1, day, tzinfo=UTC), conf={"folder": str(self.folder)})


@pytest.fixture
def flights(tmp_path: Path) -> Flights:
    return Flights(tmp_path)


@pytest.fixture(scope="session")
def january(tmp_path_factory: pytest.TempPathFactory) -> Flights:
    """Every day of January, reported."""
    flights = Flights(tmp_path_factory.mktemp("january"))
    assert {flights.run_day(day).state for day in range(1, 32)} == {"success"}
    return flights
