"""The limits of a worker's load."""

import pytest

from turnout.executor.load import LoadMeter
from turnout.executor.roster import Roster


def test_a_worker_closes_above_its_limit_and_opens_well_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = [8.0, 8.1, 7.9, 7.2, 7.9]
    monkeypatch.setattr("os.getloadavg", lambda: (loads.pop(0), 0, 0))
    meter = LoadMeter(Roster(), max_load=8)
    assert [meter.measure().closed_for for _ in range(5)] == [
        None,
        "load 8.1, max_load 8",
        "load 7.9, max_load 8",
        None,
        None,
    ]


def test_without_limits_no_load_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1000.0, 0, 0))
    assert LoadMeter(Roster()).measure().closed_for is None
