"""Which runs a timetable gives, by the policy for those that were missed."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.metadata.planning import Timing, jitter_shift, upcoming_runs
from turnout.tasks.schedule import CatchUp
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
)

NOW = datetime(2013, 1, 10, 12, tzinfo=UTC)
DAILY = CronDataIntervalTimetable("@daily")
HOURLY = CronDataIntervalTimetable("@hourly")
NOON = CronTriggerTimetable("0 12 * * *", "UTC")
MATCHES = EventsTimetable([datetime(2013, 1, day, 15, tzinfo=UTC) for day in (3, 6, 9, 12)])


def at(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2013, 1, day, hour, minute, tzinfo=UTC)


def timing(timetable: BuiltInTimetable, catchup: CatchUp, **changes: Any) -> Timing:
    given = {"start": at(1), "end": None, "jitter": timedelta(), "last": None, "since": at(1), **changes}
    return Timing("d", timetable.to_json(), catchup=catchup, **given)


def due(known: Timing, now: datetime = NOW) -> list[tuple[datetime, datetime]]:
    runs = takewhile(lambda run: run.run_after <= now, upcoming_runs(known, now))
    return [tuple(run.data_interval) for run in runs]  # type: ignore[misc]


def days(*starts: int) -> list[tuple[datetime, datetime]]:
    return [(at(day), at(day + 1)) for day in starts]


def moments(*all_: datetime) -> list[tuple[datetime, datetime]]:
    return [(moment, moment) for moment in all_]


@pytest.mark.parametrize(
    ("catchup", "expected"),
    [
        (CatchUp.NONE, []),
        (CatchUp.LATEST, days(9)),
        (CatchUp.ALL, days(*range(1, 10))),
        (CatchUp.COALESCE, [(at(1), at(10))]),
    ],
)
def test_a_new_dag_whose_start_is_long_past(catchup: CatchUp, expected: list[Any]) -> None:
    assert due(timing(DAILY, catchup, since=NOW)) == expected


@pytest.mark.parametrize(
    ("catchup", "expected"),
    [
        (CatchUp.NONE, []),
        (CatchUp.LATEST, days(9)),
        (CatchUp.ALL, days(4, 5, 6, 7, 8, 9)),
        (CatchUp.COALESCE, [(at(4), at(10))]),
    ],
)
def test_a_dag_that_was_paused_for_some_days(catchup: CatchUp, expected: list[Any]) -> None:
    known = timing(DAILY, catchup, last=DataInterval(at(3), at(4)), since=at(10, 11))
    assert due(known) == expected


@pytest.mark.parametrize("catchup", CatchUp)
def test_whatever_the_policy_the_next_run_is_the_one_that_comes_due_next(catchup: CatchUp) -> None:
    known = timing(DAILY, catchup, last=DataInterval(at(3), at(4)), since=at(10, 11))
    coming = next(run for run in upcoming_runs(known, NOW) if run.run_after > NOW)
    assert coming == DagRunInfo.interval(at(10), at(11))


@pytest.mark.parametrize(
    ("catchup", "expected"),
    [
        (CatchUp.NONE, [11]),
        (CatchUp.LATEST, [11]),
        (CatchUp.ALL, [8, 9, 10, 11]),
        (CatchUp.COALESCE, None),
    ],
)
def test_schedulers_that_were_down_for_some_hours(catchup: CatchUp, expected: list[int] | None) -> None:
    known = timing(HOURLY, catchup, last=DataInterval(at(10, 7), at(10, 8)), since=at(2))
    hours = [(at(10, hour), at(10, hour + 1)) for hour in expected or ()]
    assert due(known) == (hours if expected else [(at(10, 8), at(10, 12))])


@pytest.mark.parametrize(
    ("catchup", "expected"),
    [
        (CatchUp.NONE, []),
        (CatchUp.LATEST, [(at(10, 11), at(10, 12))]),
        (CatchUp.COALESCE, [(at(10), at(10, 12))]),
    ],
)
def test_a_schedule_that_was_changed_goes_on_where_the_last_run_ended(catchup: CatchUp, expected: list[Any]) -> None:
    assert due(timing(HOURLY, catchup, last=DataInterval(at(9), at(10)), since=NOW)) == expected


def test_moments_are_missed_like_intervals() -> None:
    known = {"since": at(9, 13), "last": DataInterval.exact(at(7, 12))}
    now = at(10, 12, 30)
    assert due(timing(NOON, CatchUp.NONE, **known), now) == moments(at(10, 12))
    assert due(timing(NOON, CatchUp.LATEST, **known), now) == moments(at(10, 12))
    assert due(timing(NOON, CatchUp.ALL, **known), now) == moments(at(8, 12), at(9, 12), at(10, 12))
    assert due(timing(NOON, CatchUp.COALESCE, **known), now) == [(at(8, 12), at(10, 12))]


def test_events_that_have_passed() -> None:
    assert due(timing(MATCHES, CatchUp.NONE, since=NOW)) == []
    assert due(timing(MATCHES, CatchUp.NONE, since=at(8))) == moments(at(9, 15))
    assert due(timing(MATCHES, CatchUp.LATEST)) == moments(at(9, 15))
    assert due(timing(MATCHES, CatchUp.ALL, start=at(4))) == moments(at(6, 15), at(9, 15))
    assert list(upcoming_runs(timing(MATCHES, CatchUp.ALL, last=DataInterval.exact(at(12, 15))), NOW)) == []


@pytest.mark.parametrize("catchup", CatchUp)
def test_what_runs_once_is_late_but_never_missed(catchup: CatchUp) -> None:
    assert due(timing(OnceTimetable(), catchup, since=NOW)) == moments(at(1))
    assert due(timing(OnceTimetable(), catchup, last=DataInterval.exact(at(1)))) == []
    assert due(timing(NullTimetable(), catchup)) == []


@pytest.mark.parametrize("catchup", CatchUp)
def test_runs_without_a_pause_follow_one_another_without_a_gap(catchup: CatchUp) -> None:
    first, following = islice(upcoming_runs(timing(ContinuousTimetable(), catchup), NOW), 2)
    assert first == DagRunInfo.interval(at(1), NOW)
    assert following.run_after > NOW
    later = NOW + timedelta(minutes=5)
    known = timing(ContinuousTimetable(), catchup, last=first.data_interval)
    assert next(upcoming_runs(known, later)) == DagRunInfo.interval(NOW, later)


def test_no_run_is_beyond_the_end_date() -> None:
    assert due(timing(DAILY, CatchUp.ALL, end=at(3))) == days(1, 2, 3)
    assert due(timing(DAILY, CatchUp.COALESCE, end=at(3))) == [(at(1), at(4))]
    assert due(timing(NOON, CatchUp.ALL, end=at(2, 12))) == moments(at(1, 12), at(2, 12))
    assert due(timing(NOON, CatchUp.COALESCE, end=at(3))) == [(at(1, 12), at(2, 12))]
    assert due(timing(DAILY, CatchUp.LATEST, end=at(3))) == []
    assert due(timing(DAILY, CatchUp.ALL, end=at(3), last=DataInterval(at(3), at(4)))) == []


def test_a_date_that_is_taken_is_stepped_over() -> None:
    taken = frozenset({at(4), at(6)})
    last = DataInterval(at(3), at(4))
    assert due(timing(DAILY, CatchUp.ALL, last=last, taken=taken)) == days(5, 7, 8, 9)
    assert due(timing(DAILY, CatchUp.COALESCE, last=last, taken=taken)) == [(at(5), at(10))]
    assert due(timing(DAILY, CatchUp.LATEST, last=last, taken=frozenset({at(9)}))) == []


def test_a_timetable_of_moments_that_becomes_one_of_intervals_goes_on() -> None:
    known = timing(DAILY, CatchUp.ALL, last=DataInterval.exact(at(8)), taken=frozenset({at(8)}))
    assert due(known) == days(9)


def test_jitter_moves_the_start_of_runs_and_nothing_else() -> None:
    shift = jitter_shift("d", timedelta(hours=1))
    assert timedelta() < shift < timedelta(hours=1)
    run = next(upcoming_runs(timing(DAILY, CatchUp.ALL, jitter=timedelta(hours=1)), NOW))
    assert (run.data_interval, run.run_after) == (DataInterval(at(1), at(2)), at(2) + shift)
    known = timing(DAILY, CatchUp.LATEST, jitter=timedelta(hours=1), last=DataInterval(at(8), at(9)))
    assert due(known, at(10) + shift - timedelta(seconds=1)) == []
    assert due(known, at(10) + shift) == days(9)


def test_a_run_that_jitter_holds_back_when_the_dag_is_unpaused_is_not_missed() -> None:
    known = timing(DAILY, CatchUp.NONE, jitter=timedelta(hours=1), since=at(10, 0, 0))
    assert due(known, at(10, 1)) == days(9)


@given(dag_id=st.text(min_size=1), jitter=st.timedeltas(timedelta(), timedelta(days=3)))
def test_jitter_is_always_the_same_and_within_its_bound(dag_id: str, jitter: timedelta) -> None:
    shift = jitter_shift(dag_id, jitter)
    assert shift == jitter_shift(dag_id, jitter)
    assert timedelta() <= shift < jitter or not jitter


def test_jitter_spreads_a_herd_evenly() -> None:
    minutes = [jitter_shift(f"dag_{number}", timedelta(minutes=60)) // timedelta(minutes=10) for number in range(600)]
    assert all(60 < minutes.count(part) < 140 for part in range(6))


@settings(deadline=None)
@given(
    timetable=st.sampled_from(
        [
            DAILY,
            HOURLY,
            NOON,
            MATCHES,
            CronDataIntervalTimetable("30 2 * * *", "America/Santiago"),
            DeltaDataIntervalTimetable(timedelta(hours=7)),
            DeltaTriggerTimetable(timedelta(hours=7), timedelta(hours=1)),
            MultipleCronTriggerTimetable("0 3 * * *", "30 3 * * 1", timezone="UTC", interval=timedelta(hours=2)),
        ]
    ),
    start=st.datetimes(datetime(2012, 12, 20), datetime(2013, 1, 15), timezones=st.just(UTC)),  # noqa: DTZ001
    end=st.none() | st.datetimes(datetime(2013, 1, 5), datetime(2013, 1, 20), timezones=st.just(UTC)),  # noqa: DTZ001
    ran=st.integers(0, 5),
    since=st.datetimes(datetime(2013, 1, 1), datetime(2013, 1, 10), timezones=st.just(UTC)),  # noqa: DTZ001
    jitter=st.sampled_from([timedelta(), timedelta(hours=2)]),
)
def test_every_policy_is_a_choice_among_all_missed_runs(  # noqa: PLR0917
    timetable: BuiltInTimetable,
    start: datetime,
    end: datetime | None,
    ran: int,
    since: datetime,
    jitter: timedelta,
) -> None:
    def of(catchup: CatchUp, last: DataInterval | None) -> Timing:
        return timing(timetable, catchup, start=start, end=end, last=last, since=since, jitter=jitter)

    def runs(catchup: CatchUp) -> Iterable[DagRunInfo]:
        return takewhile(lambda run: run.run_after <= NOW, upcoming_runs(of(catchup, last), NOW))

    earlier = list(islice(upcoming_runs(of(CatchUp.ALL, None), NOW), ran))
    last = earlier[-1].data_interval if earlier else None
    missed = list(runs(CatchUp.ALL))
    if end is None:
        assert list(runs(CatchUp.LATEST)) == missed[-1:]
        assert list(runs(CatchUp.NONE)) == [run for run in missed[-1:] if run.run_after > since]
    assert list(runs(CatchUp.COALESCE)) == (
        [DagRunInfo(missed[-1].run_after, DataInterval(missed[0].data_interval.start, missed[-1].data_interval.end))]
        if missed
        else []
    )
