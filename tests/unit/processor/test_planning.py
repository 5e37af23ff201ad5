"""Which run comes next, by a DAG's content."""

from datetime import UTC, datetime
from typing import Any

from turnout.metadata.runs import NextRun
from turnout.scheduler.planning import next_run_row, plan_next

NOW = datetime(2013, 1, 10, 12, tzinfo=UTC)


def content(**changes: Any) -> dict[str, Any]:
    daily = {"type": "cron", "expression": "0 0 * * *", "timezone": "UTC"}
    return {"schedule": daily, "start_date": "2013-01-01T00:00:00+00:00", "end_date": None, "catchup": True, **changes}


def day(number: int) -> datetime:
    return datetime(2013, 1, number, tzinfo=UTC)


def test_the_first_run_is_that_of_the_start_date() -> None:
    assert next_run_row("a", plan_next(content(), None, NOW)) == NextRun("a", day(1), day(1), day(2), day(2))


def test_the_next_run_follows_the_last() -> None:
    assert next_run_row("a", plan_next(content(), (day(3), day(4)), NOW)) == NextRun(
        "a", day(4), day(4), day(5), day(5)
    )


def test_without_catchup_it_is_the_latest_that_has_closed() -> None:
    planned = plan_next(content(catchup=False), (day(3), day(4)), NOW)
    assert planned is not None
    assert planned.logical_date == day(9)


def test_there_is_none_after_the_end_date() -> None:
    planned = plan_next(content(end_date="2013-01-04T00:00:00+00:00"), (day(4), day(5)), NOW)
    assert next_run_row("a", planned) == NextRun("a")


def test_there_is_none_without_a_schedule() -> None:
    assert plan_next(content(schedule={"type": "none"}), None, NOW) is None
