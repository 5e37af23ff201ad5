from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from turnout.tasks.errors import DagError
from turnout.tasks.timetables import (
    BuiltInTimetable,
    ContinuousTimetable,
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    DagRunInfo,
    DataInterval,
    DeltaDataIntervalTimetable,
    DeltaTriggerTimetable,
    EventsTimetable,
    MultipleCronTriggerTimetable,
    NullTimetable,
    OnceTimetable,
    TimeRestriction,
    Timetable,
    plan_ahead,
    timetable_from_json,
    timetable_to_json,
)

DAILY = CronDataIntervalTimetable("@daily")
HOURS_6 = DeltaDataIntervalTimetable(timedelta(hours=6))


def at(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2013, 1, day, hour, minute, tzinfo=UTC)


def planned(start: datetime, end: datetime) -> DagRunInfo:
    return DagRunInfo.interval(start, end)


def next_run(  # noqa: PLR0917
    timetable: BuiltInTimetable,
    last: DataInterval | None,
    start: datetime | None,
    end: datetime | None,
    catchup: bool,
    now: datetime,
) -> DagRunInfo | None:
    run = timetable.run_from(last, start, now, catchup=catchup)
    return run if run and (end is None or timetable.allows(run, end)) else None


def test_a_run_covers_an_interval_and_starts_when_it_has_closed() -> None:
    run = next_run(DAILY, None, at(1), None, catchup=True, now=at(10))
    assert run == DagRunInfo(run_after=at(2), data_interval=DataInterval(at(1), at(2)))
    assert run.logical_date == at(1)


def test_with_catchup_every_interval_follows_the_last() -> None:
    assert next_run(DAILY, DataInterval(at(1), at(2)), at(1), None, True, at(10)) == planned(at(2), at(3))


def test_without_catchup_only_the_latest_closed_interval_runs() -> None:
    assert next_run(DAILY, None, at(1), None, False, at(10, 5)) == planned(at(9), at(10))
    assert next_run(DAILY, DataInterval(at(1), at(2)), at(1), None, False, at(10, 5)) == planned(at(9), at(10))


def test_without_catchup_the_next_is_the_one_still_to_close() -> None:
    assert next_run(DAILY, DataInterval(at(9), at(10)), at(1), None, False, at(10, 5)) == planned(at(10), at(11))


def test_an_interval_that_closes_this_very_moment_has_closed() -> None:
    assert next_run(DAILY, None, at(1), None, False, at(10)) == planned(at(9), at(10))


def test_a_start_date_in_the_future_is_waited_for() -> None:
    assert next_run(DAILY, None, at(20), None, False, at(10)) == planned(at(20), at(21))
    assert next_run(HOURS_6, None, at(20), None, False, at(10)) == planned(at(20), at(20, 6))


def test_a_start_date_between_boundaries_begins_at_the_next() -> None:
    assert next_run(DAILY, None, at(1, 7), None, True, at(10)) == planned(at(2), at(3))


def test_no_interval_starts_after_the_end_date() -> None:
    assert next_run(DAILY, DataInterval(at(2), at(3)), at(1), at(3), True, at(10)) == planned(at(3), at(4))
    assert next_run(DAILY, DataInterval(at(3), at(4)), at(1), at(3), True, at(10)) is None
    assert next_run(DAILY, None, at(1), at(3), False, at(10)) is None


def test_a_changed_cron_schedule_goes_on_from_its_own_boundary() -> None:
    hourly = CronDataIntervalTimetable("@hourly")
    assert next_run(hourly, DataInterval(at(1, 0, 30), at(2, 0, 30)), at(1), None, True, at(10)) == planned(
        at(2), at(2, 1)
    )


def test_lengths_of_time_are_counted_from_the_start_date() -> None:
    start = at(1, 1, 30)
    assert next_run(HOURS_6, None, start, None, True, at(3)) == planned(start, at(1, 7, 30))
    assert next_run(HOURS_6, None, start, None, False, at(3)) == planned(at(2, 13, 30), at(2, 19, 30))
    last = DataInterval(at(2, 13, 30), at(2, 19, 30))
    assert next_run(HOURS_6, last, start, None, False, at(3)) == planned(at(2, 19, 30), at(3, 1, 30))


def test_a_cron_schedule_needs_no_start_date_without_catchup() -> None:
    assert next_run(DAILY, None, None, None, False, at(10, 5)) == planned(at(9), at(10))
    assert next_run(HOURS_6, None, None, None, False, at(10, 5)) == planned(at(9, 18), at(10))


def test_once_runs_once_at_the_start_date() -> None:
    assert next_run(OnceTimetable(), None, at(1), None, False, at(10)) == planned(at(1), at(1))
    assert next_run(OnceTimetable(), None, None, None, False, at(10)) == planned(at(10), at(10))
    assert next_run(OnceTimetable(), DataInterval(at(1), at(1)), at(1), None, False, at(10)) is None
    assert next_run(OnceTimetable(), None, at(5), at(3), False, at(10)) is None


def test_no_schedule_never_runs() -> None:
    assert next_run(NullTimetable(), None, at(1), None, True, at(10)) is None


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
    run = next_run(timetable, None, start, None, True, start)
    assert run == planned(start, datetime(2024, 10, 27, 23, tzinfo=UTC))


@pytest.mark.parametrize(
    "timetable",
    [
        DAILY,
        HOURS_6,
        NullTimetable(),
        OnceTimetable(),
        ContinuousTimetable(),
        CronDataIntervalTimetable("5 4 * * 1", "+05:30"),
        CronTriggerTimetable("5 4 * * 1", ZoneInfo("Asia/Tokyo"), timedelta(hours=1)),
        MultipleCronTriggerTimetable("@daily", "0 6 * * 1-5", timezone="Europe/Berlin"),
        DeltaTriggerTimetable(timedelta(hours=6)),
        DeltaTriggerTimetable(timedelta(hours=6), timedelta(hours=1)),
        EventsTimetable([at(3), at(1)], restrict_to_events=True, description="Matches"),
    ],
)
def test_timetables_survive_serialization(timetable: Timetable) -> None:
    again = timetable_from_json(timetable_to_json(timetable))
    assert (again.to_json(), again.summary) == (timetable_to_json(timetable), timetable.summary)


def test_a_timetable_of_another_release_is_refused() -> None:
    with pytest.raises(ValueError, match="Unknown timetable"):
        timetable_from_json({"type": "lunar"})


@pytest.mark.parametrize("delta", [timedelta(0), timedelta(seconds=-1)])
def test_a_schedule_without_length_is_refused(delta: timedelta) -> None:
    with pytest.raises(DagError, match="above zero"):
        DeltaDataIntervalTimetable(delta)


def test_a_trigger_runs_at_its_moment_for_the_interval_before_it() -> None:
    timetable = CronTriggerTimetable("0 6 * * *", "UTC", interval=timedelta(hours=2))
    run = next_run(timetable, None, at(1), None, True, at(10))
    assert run == planned(at(1, 4), at(1, 6))
    assert next_run(timetable, DataInterval(at(1, 4), at(1, 6)), at(1), None, True, at(10)) == planned(
        at(2, 4), at(2, 6)
    )
    assert next_run(timetable, None, None, None, False, at(10, 5)) == planned(at(9, 4), at(9, 6))
    assert timetable.manual_interval(at(10, 7, 30)) == DataInterval(at(10, 5, 30), at(10, 7, 30))
    assert timetable.interval_of(at(3, 4)) == DataInterval(at(3, 4), at(3, 6))


def test_without_an_interval_the_logical_date_of_a_trigger_is_its_moment() -> None:
    run = next_run(CronTriggerTimetable("0 6 * * *", "UTC"), None, at(1), None, True, at(10))
    assert run == DagRunInfo.exact(at(1, 6))
    assert run.logical_date == run.run_after


def test_a_start_date_is_the_first_moment_that_may_fire() -> None:
    timetable = CronTriggerTimetable("0 6 * * *", "UTC", interval=timedelta(hours=12))
    assert next_run(timetable, None, at(1, 6), None, True, at(10)) == planned(at(1) - timedelta(hours=6), at(1, 6))
    assert next_run(timetable, None, at(1, 7), None, True, at(10)) == planned(at(1, 18), at(2, 6))


def test_several_crons_make_one_run_for_each_moment() -> None:
    timetable = MultipleCronTriggerTimetable("0 6 * * *", "0 6,18 * * *", "30 7 2 * *", timezone="UTC")
    seen, last = [], None
    for _ in range(5):
        run = next_run(timetable, last, at(1), None, True, at(10))
        assert run is not None
        seen.append(run.run_after)
        last = run.data_interval
    assert seen == [at(1, 6), at(1, 18), at(2, 6), at(2, 7, 30), at(2, 18)]
    assert next_run(timetable, None, at(1), None, False, at(2, 8)) == DagRunInfo.exact(at(2, 7, 30))
    with pytest.raises(DagError, match="at least one"):
        MultipleCronTriggerTimetable(timezone="UTC")


def test_a_length_of_time_triggers_from_the_start_date_on() -> None:
    timetable = DeltaTriggerTimetable(timedelta(hours=6))
    assert next_run(timetable, None, at(1, 1), None, True, at(3)) == DagRunInfo.exact(at(1, 1))
    assert next_run(timetable, None, at(1, 1), None, False, at(3)) == DagRunInfo.exact(at(2, 19))
    assert next_run(timetable, DataInterval.exact(at(2, 19)), at(1, 1), None, False, at(3)) == DagRunInfo.exact(
        at(3, 1)
    )


def test_events_run_in_order_each_once() -> None:
    timetable = EventsTimetable([at(5), at(3), at(5), datetime(2013, 1, 4)])  # noqa: DTZ001
    assert next_run(timetable, None, None, None, True, at(10)) == DagRunInfo.exact(at(3))
    assert next_run(timetable, DataInterval.exact(at(3)), None, None, True, at(10)) == DagRunInfo.exact(at(4))
    assert next_run(timetable, None, None, None, False, at(4, 12)) == DagRunInfo.exact(at(4))
    assert next_run(timetable, DataInterval.exact(at(5)), None, None, False, at(10)) is None
    assert next_run(timetable, None, None, at(2), True, at(10)) is None
    assert timetable.summary == "3 dates"


def test_a_run_by_hand_may_be_bound_to_the_events() -> None:
    free, bound = (EventsTimetable([at(3), at(5)], restrict_to_events=restricted) for restricted in (False, True))
    assert free.manual_interval(at(4)) == DataInterval.exact(at(4))
    assert [bound.manual_interval(at(day)).start for day in (1, 3, 4, 9)] == [at(3), at(3), at(3), at(5)]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: EventsTimetable([]), "event_dates is empty"),
        (lambda: EventsTimetable(5), "event_dates must be a list of datetimes, not 5"),
        (
            lambda: EventsTimetable([datetime(1, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))]),
            "date 0001-01-01 .* beyond the years",
        ),
        (lambda: EventsTimetable(["2013-01-01"]), "each of event_dates must be a datetime"),
        (lambda: EventsTimetable([at(1)], restrict_to_events="yes"), "restrict_to_events must be True or False"),
        (lambda: CronTriggerTimetable("@daily", "Mars/Phobos"), "no time zone 'Mars/Phobos'"),
        (lambda: CronTriggerTimetable("@daily", "UTC", timedelta(-1)), "interval must not be negative"),
        (lambda: CronTriggerTimetable(5, "UTC"), "The cron expression must be a text"),
        (lambda: DeltaTriggerTimetable(timedelta(0)), "delta=.* is not a length of time above zero"),
        (lambda: DeltaTriggerTimetable(60), "delta must be a timedelta"),
    ],
)
def test_what_a_timetable_cannot_be_made_of_is_refused(wrong: Any, words: str) -> None:
    with pytest.raises(DagError, match=words):
        wrong()


class Weekdays(Timetable):
    """Noon of every working day, made of another timetable."""

    _noon = CronTriggerTimetable("0 12 * * *", "UTC")

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        run = self._noon.next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
        while run and run.logical_date.weekday() > 4:
            run = self._noon.next_dagrun_info(last_automated_data_interval=run.data_interval, restriction=restriction)
        return run


def test_an_authors_timetable_may_be_made_of_ours() -> None:
    friday, monday = at(4, 12), at(7, 12)
    restriction = TimeRestriction(at(4), at(8), catchup=True)
    first = Weekdays().next_dagrun_info(last_automated_data_interval=None, restriction=restriction)
    assert first == DagRunInfo.exact(friday)
    second = Weekdays().next_dagrun_info(last_automated_data_interval=first.data_interval, restriction=restriction)
    assert second == DagRunInfo.exact(monday)
    late = restriction._replace(latest=at(5))
    assert (
        CronTriggerTimetable("0 12 * * *", "UTC").next_dagrun_info(
            last_automated_data_interval=DataInterval.exact(monday), restriction=late
        )
        is None
    )
    assert Weekdays().interval_of(friday) == DataInterval.exact(friday)
    assert timetable_to_json(Weekdays()) == {"type": "custom", "summary": "Weekdays"}


class EverySecond(Timetable):
    """Walks through all that was missed, whatever the policy says."""

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo:
        assert restriction.earliest is not None
        begin = last_automated_data_interval.end if last_automated_data_interval else restriction.earliest
        return DagRunInfo.interval(begin, begin + timedelta(seconds=1))


@pytest.mark.parametrize("catchup", ["none", "latest", "coalesce"])
def test_a_timetable_of_an_author_that_walks_through_years_is_stopped_in_words(catchup: str) -> None:
    start, now = datetime(2020, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)
    with pytest.raises(DagError, match="gives more than 100,000 runs that were missed, up to 2020-01-02"):
        plan_ahead(EverySecond(), None, start, None, catchup, now)
