from datetime import UTC, datetime, timedelta

import pytest

from turnout.tasks.errors import DagError
from turnout.tasks.timetables import (
    CronDataIntervalTimetable,
    DataInterval,
    DeltaDataIntervalTimetable,
    NullTimetable,
    OnceTimetable,
    PlannedRun,
    Timetable,
    timetable_from_json,
)

DAILY = CronDataIntervalTimetable("@daily")
HOURS_6 = DeltaDataIntervalTimetable(timedelta(hours=6))


def at(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2013, 1, day, hour, minute, tzinfo=UTC)


def planned(start: datetime, end: datetime) -> PlannedRun:
    return PlannedRun(start, DataInterval(start, end), end)


def test_a_run_covers_an_interval_and_starts_when_it_has_closed() -> None:
    run = DAILY.next_run(None, at(1), None, catchup=True, now=at(10))
    assert run == PlannedRun(at(1), DataInterval(at(1), at(2)), run_after=at(2))


def test_with_catchup_every_interval_follows_the_last() -> None:
    assert DAILY.next_run(DataInterval(at(1), at(2)), at(1), None, True, at(10)) == planned(at(2), at(3))


def test_without_catchup_only_the_latest_closed_interval_runs() -> None:
    assert DAILY.next_run(None, at(1), None, False, at(10, 5)) == planned(at(9), at(10))
    assert DAILY.next_run(DataInterval(at(1), at(2)), at(1), None, False, at(10, 5)) == planned(at(9), at(10))


def test_without_catchup_the_next_is_the_one_still_to_close() -> None:
    assert DAILY.next_run(DataInterval(at(9), at(10)), at(1), None, False, at(10, 5)) == planned(at(10), at(11))


def test_an_interval_that_closes_this_very_moment_has_closed() -> None:
    assert DAILY.next_run(None, at(1), None, False, at(10)) == planned(at(9), at(10))


def test_a_start_date_in_the_future_is_waited_for() -> None:
    assert DAILY.next_run(None, at(20), None, False, at(10)) == planned(at(20), at(21))
    assert HOURS_6.next_run(None, at(20), None, False, at(10)) == planned(at(20), at(20, 6))


def test_a_start_date_between_boundaries_begins_at_the_next() -> None:
    assert DAILY.next_run(None, at(1, 7), None, True, at(10)) == planned(at(2), at(3))


def test_no_interval_starts_after_the_end_date() -> None:
    assert DAILY.next_run(DataInterval(at(2), at(3)), at(1), at(3), True, at(10)) == planned(at(3), at(4))
    assert DAILY.next_run(DataInterval(at(3), at(4)), at(1), at(3), True, at(10)) is None
    assert DAILY.next_run(None, at(1), at(3), False, at(10)) is None


def test_a_changed_cron_schedule_goes_on_from_its_own_boundary() -> None:
    hourly = CronDataIntervalTimetable("@hourly")
    assert hourly.next_run(DataInterval(at(1, 0, 30), at(2, 0, 30)), at(1), None, True, at(10)) == planned(
        at(2), at(2, 1)
    )


def test_lengths_of_time_are_counted_from_the_start_date() -> None:
    start = at(1, 1, 30)
    assert HOURS_6.next_run(None, start, None, True, at(3)) == planned(start, at(1, 7, 30))
    assert HOURS_6.next_run(None, start, None, False, at(3)) == planned(at(2, 13, 30), at(2, 19, 30))
    last = DataInterval(at(2, 13, 30), at(2, 19, 30))
    assert HOURS_6.next_run(last, start, None, False, at(3)) == planned(at(2, 19, 30), at(3, 1, 30))


def test_a_cron_schedule_needs_no_start_date_without_catchup() -> None:
    assert DAILY.next_run(None, None, None, False, at(10, 5)) == planned(at(9), at(10))
    assert HOURS_6.next_run(None, None, None, False, at(10, 5)) == planned(at(9, 18), at(10))


def test_once_runs_once_at_the_start_date() -> None:
    assert OnceTimetable().next_run(None, at(1), None, False, at(10)) == planned(at(1), at(1))
    assert OnceTimetable().next_run(None, None, None, False, at(10)) == planned(at(10), at(10))
    assert OnceTimetable().next_run(DataInterval(at(1), at(1)), at(1), None, False, at(10)) is None
    assert OnceTimetable().next_run(None, at(5), at(3), False, at(10)) is None


def test_no_schedule_never_runs() -> None:
    assert NullTimetable().next_run(None, at(1), None, True, at(10)) is None


@pytest.mark.parametrize(
    ("timetable", "expected"),
    [
        (DAILY, DataInterval(at(9), at(10))),
        (HOURS_6, DataInterval(at(10), at(10, 6))),
        (NullTimetable(), DataInterval(at(10, 6), at(10, 6))),
        (OnceTimetable(), DataInterval(at(10, 6), at(10, 6))),
    ],
)
def test_a_run_by_hand_is_for_the_latest_interval_that_has_closed(timetable: Timetable, expected: DataInterval) -> None:
    assert timetable.manual_interval(at(10, 6)) == expected


def test_intervals_of_a_zone_are_as_long_as_its_days() -> None:
    timetable = CronDataIntervalTimetable("@daily", "Europe/Berlin")
    start = datetime(2024, 10, 26, 22, tzinfo=UTC)
    run = timetable.next_run(None, start, None, True, start)
    assert run == planned(start, datetime(2024, 10, 27, 23, tzinfo=UTC))


@pytest.mark.parametrize(
    "timetable", [DAILY, HOURS_6, NullTimetable(), OnceTimetable(), CronDataIntervalTimetable("5 4 * * 1", "+05:30")]
)
def test_timetables_survive_serialization(timetable: Timetable) -> None:
    assert timetable_from_json(timetable.to_json()) == timetable


def test_a_timetable_of_another_release_is_refused() -> None:
    with pytest.raises(ValueError, match="Unknown timetable"):
        timetable_from_json({"type": "lunar"})


@pytest.mark.parametrize("delta", [timedelta(0), timedelta(seconds=-1)])
def test_a_schedule_without_length_is_refused(delta: timedelta) -> None:
    with pytest.raises(DagError, match="above zero"):
        DeltaDataIntervalTimetable(delta)
