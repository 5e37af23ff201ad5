from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.tasks.cron import CronClock
from turnout.tasks.errors import DagError
from turnout.tasks.timetables import CronDataIntervalTimetable, CronTriggerTimetable

BERLIN = "Europe/Berlin"
ZONES = [
    BERLIN,
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "America/Havana",
    "Asia/Beirut",
    "America/Santiago",
    "Africa/Casablanca",
    "UTC",
]


def fires(expression: str, zone: str, start: str, count: int) -> list[str]:
    clock, moment, seen = CronClock(expression, zone), datetime.fromisoformat(start).astimezone(UTC), []
    for _ in range(count):
        moment = clock.first_after(moment)
        seen.append(moment.astimezone(ZoneInfo(zone)).strftime("%d %H:%M%z"))
    return seen


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"),
    [
        # Spring: 02:00 becomes 03:00. A fixed time inside the hour that is left out runs once, as much later.
        ("30 2 * * *", BERLIN, "2024-03-29T12:00Z", ["30 02:30+0100", "31 03:30+0200", "01 02:30+0200"]),
        ("0 0 * * *", BERLIN, "2024-03-29T12:00Z", ["30 00:00+0100", "31 00:00+0100", "01 00:00+0200"]),
        # Two wall clocks that come to mean the same moment make one run.
        ("30 2,3 * * *", BERLIN, "2024-03-30T12:00Z", ["31 03:30+0200", "01 02:30+0200", "01 03:30+0200"]),
        # Autumn: 03:00 becomes 02:00. A fixed time inside the hour that comes twice runs at the first.
        ("30 2 * * *", BERLIN, "2024-10-25T12:00Z", ["26 02:30+0200", "27 02:30+0200", "28 02:30+0100"]),
        ("0 3 * * *", BERLIN, "2024-10-25T12:00Z", ["26 03:00+0200", "27 03:00+0100", "28 03:00+0100"]),
        ("30 1 * * *", "America/New_York", "2024-11-02T12:00Z", ["03 01:30-0400", "04 01:30-0500"]),
        # Jobs by interval keep their rhythm in real time on both nights.
        ("0 * * * *", BERLIN, "2024-03-30T23:30Z", ["31 01:00+0100", "31 03:00+0200", "31 04:00+0200"]),
        ("0 * * * *", BERLIN, "2024-10-26T23:30Z", ["27 02:00+0200", "27 02:00+0100", "27 03:00+0100"]),
        (
            "*/30 * * * *",
            BERLIN,
            "2024-10-27T00:00Z",
            ["27 02:30+0200", "27 02:00+0100", "27 02:30+0100", "27 03:00+0100"],
        ),
        ("0 0-23 * * *", BERLIN, "2024-10-26T23:30Z", ["27 02:00+0200", "27 02:00+0100", "27 03:00+0100"]),
        # A change by half an hour, at midnight, and by a whole day that never was.
        (
            "10,35 2 * * *",
            "Australia/Lord_Howe",
            "2024-10-05T06:00Z",
            ["06 02:35+1100", "06 02:40+1100", "07 02:10+1100"],
        ),
        ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00Z", ["04 01:00-0200", "05 00:00-0200"]),
        ("0 12 * * *", "Pacific/Apia", "2011-12-29T20:00Z", ["29 12:00-1000", "31 12:00+1400", "01 12:00+1400"]),
        ("0 0 29 2 *", "UTC", "2024-02-29T00:00Z", ["29 00:00+0000"]),
    ],
)
def test_every_night_has_the_runs_that_people_expect(
    expression: str, zone: str, start: str, expected: list[str]
) -> None:
    assert fires(expression, zone, start, len(expected)) == expected


#: Nights on which the wall clock of a zone changes, and what a cron expression means there. They are counted out by
#: hand from the tz database: (zone, expression, start, the runs by the wall clock).
NIGHTS = [
    # Clocks that change at midnight. Forward, 00:00 becomes 01:00: there is no midnight, and the daily run is at 01:00.
    ("America/Havana", "0 0 * * *", "2024-03-09T12:00Z", ["10 01:00-0400", "11 00:00-0400"]),
    ("America/Havana", "30 0 * * *", "2024-03-09T12:00Z", ["10 01:30-0400", "11 00:30-0400"]),
    ("Asia/Beirut", "0 0 * * *", "2024-03-30T12:00Z", ["31 01:00+0300", "01 00:00+0300"]),
    ("Africa/Cairo", "0 0 * * *", "2024-04-25T12:00Z", ["26 01:00+0300", "27 00:00+0300"]),
    ("America/Santiago", "0 0 * * *", "2024-09-07T12:00Z", ["08 01:00-0300", "09 00:00-0300"]),
    ("America/Asuncion", "15 0 * * *", "2024-10-05T12:00Z", ["06 01:15-0300", "07 00:15-0300"]),
    # Back in Havana, 01:00 becomes 00:00: midnight comes twice, the run once, at the first.
    ("America/Havana", "0 0 * * *", "2024-11-02T12:00Z", ["03 00:00-0400", "04 00:00-0500"]),
    ("America/Havana", "30 0 * * *", "2024-11-02T12:00Z", ["03 00:30-0400", "04 00:30-0500"]),
    # Back elsewhere, 24:00 becomes 23:00 of the same day: that hour comes twice, midnight once, an hour later.
    ("Asia/Beirut", "0 0 * * *", "2024-10-26T12:00Z", ["27 00:00+0200", "28 00:00+0200"]),
    ("Asia/Beirut", "30 23 * * *", "2024-10-26T12:00Z", ["26 23:30+0300", "27 23:30+0200"]),
    ("Africa/Cairo", "30 23 * * *", "2024-10-31T12:00Z", ["31 23:30+0300", "01 23:30+0200"]),
    ("Africa/Cairo", "0 0 1 * *", "2024-10-31T12:00Z", ["01 00:00+0200", "01 00:00+0200"]),
    ("America/Santiago", "0 0 * * *", "2024-04-06T12:00Z", ["07 00:00-0400", "08 00:00-0400"]),
    ("America/Santiago", "0 23 * * *", "2024-04-06T12:00Z", ["06 23:00-0300", "07 23:00-0400"]),
    ("America/Asuncion", "59 23 * * *", "2024-03-23T12:00Z", ["23 23:59-0300", "24 23:59-0400"]),
    # Jobs by interval keep their rhythm over those midnights.
    ("America/Havana", "0 * * * *", "2024-03-10T03:30Z", ["09 23:00-0500", "10 01:00-0400", "10 02:00-0400"]),
    ("America/Havana", "*/30 * * * *", "2024-11-03T04:15Z", ["03 00:30-0400", "03 00:00-0500", "03 00:30-0500"]),
    ("Asia/Beirut", "0 * * * *", "2024-10-26T19:30Z", ["26 23:00+0300", "26 23:00+0200", "27 00:00+0200"]),
    ("America/Santiago", "0 * * * *", "2024-04-07T01:30Z", ["06 23:00-0300", "06 23:00-0400", "07 00:00-0400"]),
    ("America/Santiago", "0 */2 * * *", "2024-09-08T01:30Z", ["07 22:00-0400", "08 02:00-0300", "08 04:00-0300"]),
    # A change by half an hour: forward 02:00 becomes 02:30, back 02:00 becomes 01:30.
    ("Australia/Lord_Howe", "15 2 * * *", "2024-10-05T06:00Z", ["06 02:45+1100", "07 02:15+1100"]),
    ("Australia/Lord_Howe", "30 2 * * *", "2024-10-05T06:00Z", ["06 02:30+1100", "07 02:30+1100"]),
    ("Australia/Lord_Howe", "45 1 * * *", "2024-04-06T06:00Z", ["07 01:45+1100", "08 01:45+1030"]),
    ("Australia/Lord_Howe", "0 2 * * *", "2024-04-06T06:00Z", ["07 02:00+1030", "08 02:00+1030"]),
    (
        "Australia/Lord_Howe",
        "*/15 * * * *",
        "2024-04-06T14:20Z",
        ["07 01:30+1100", "07 01:45+1100", "07 01:30+1030", "07 01:45+1030", "07 02:00+1030"],
    ),
    ("Australia/Lord_Howe", "0 * * * *", "2024-10-05T14:00Z", ["06 01:00+1030", "06 03:00+1100", "06 04:00+1100"]),
    # The southern half: forward in spring, which is October there, and back in April.
    ("Australia/Sydney", "30 2 * * *", "2024-10-05T12:00Z", ["06 03:30+1100", "07 02:30+1100"]),
    ("Australia/Sydney", "30 2 * * *", "2024-04-06T12:00Z", ["07 02:30+1100", "08 02:30+1000"]),
    ("Australia/Sydney", "0 * * * *", "2024-04-06T14:30Z", ["07 02:00+1100", "07 02:00+1000", "07 03:00+1000"]),
    ("Pacific/Auckland", "30 2 * * *", "2024-09-28T12:00Z", ["29 03:30+1300", "30 02:30+1300"]),
    ("Pacific/Auckland", "30 2 * * *", "2024-04-06T12:00Z", ["07 02:30+1300", "08 02:30+1200"]),
    # A zone off the hour, and one that changes for Ramadan.
    ("America/St_Johns", "30 1 * * *", "2024-11-02T12:00Z", ["03 01:30-0230", "04 01:30-0330"]),
    ("America/St_Johns", "30 2 * * *", "2024-03-09T12:00Z", ["10 03:30-0230", "11 02:30-0230"]),
    ("Africa/Casablanca", "30 2 * * *", "2024-03-09T12:00Z", ["10 02:30+0100", "11 02:30+0000"]),
    ("Africa/Casablanca", "30 2 * * *", "2024-04-13T12:00Z", ["14 03:30+0100", "15 02:30+0100"]),
]


@pytest.mark.parametrize(("zone", "expression", "start", "expected"), NIGHTS)
def test_the_nights_of_the_change_all_over_the_world(
    zone: str, expression: str, start: str, expected: list[str]
) -> None:
    assert fires(expression, zone, start, len(expected)) == expected


@pytest.mark.parametrize(("zone", "expression", "start", "expected"), NIGHTS)
def test_data_intervals_and_moments_follow_the_same_nights(
    zone: str, expression: str, start: str, expected: list[str]
) -> None:
    begin = CronClock(expression, zone).first_after(datetime.fromisoformat(start).astimezone(UTC))
    intervals, moments, last, moment = [], [], None, None
    for _ in expected:
        run = CronDataIntervalTimetable(expression, zone).next_run(last, begin, begin)
        at = CronTriggerTimetable(expression, zone).next_run(moment, begin, begin)
        assert run is not None
        assert at is not None
        last, moment = run.data_interval, at.data_interval
        intervals.append(last.start.astimezone(ZoneInfo(zone)).strftime("%d %H:%M%z"))
        moments.append(moment.start.astimezone(ZoneInfo(zone)).strftime("%d %H:%M%z"))
        assert last.end == CronClock(expression, zone).first_after(last.start)
    assert intervals == moments == expected


@given(
    expression=st.sampled_from(
        [
            "30 2 * * *",
            "0 * * * *",
            "*/15 * * * *",
            "0 0 * * *",
            "0,30 1-3 * * *",
            "15 0 * * 0",
            "0 */3 * * *",
            "*/20 2 * * *",
        ]
    ),
    zone=st.sampled_from(ZONES),
    moment=st.datetimes(datetime(2010, 1, 1), datetime(2026, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_looking_back_finds_what_looking_ahead_found(expression: str, zone: str, moment: datetime) -> None:
    clock = CronClock(expression, zone)
    ahead = clock.first_after(moment)
    assert ahead > moment
    assert clock.last_until(ahead) == ahead
    back = clock.last_before(ahead)
    assert back <= moment
    assert clock.first_after(back) == ahead


@given(
    zone=st.sampled_from(ZONES),
    day=st.dates(datetime(2012, 1, 1).date(), datetime(2026, 1, 1).date()),  # noqa: DTZ001
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
)
def test_a_fixed_time_runs_exactly_once_a_day(zone: str, day: datetime, hour: int, minute: int) -> None:
    clock = CronClock(f"{minute} {hour} * * *", zone)
    midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    first = clock.first_from(midnight)
    # A wall clock that is left out may move over midnight; the next run is still that of the next day.
    assert timedelta(hours=22) <= clock.first_after(first) - first <= timedelta(hours=26)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("61 * * * *", "out of range"),
        ("0 0 * *", "five fields"),
        ("", "five fields"),
        ("0 0 0 1 * * 2026", "five fields"),
        ("0 0 30 2 *", "failed to find next date"),
        ("H H * * *", "five fields"),
        ("R R * * *", "five fields"),
        ("@fortnightly", "no schedule preset '@fortnightly'"),
    ],
)
def test_an_impossible_expression_is_refused_with_the_reason(expression: str, reason: str) -> None:
    with pytest.raises(DagError, match=reason):
        CronClock(expression, "UTC")
