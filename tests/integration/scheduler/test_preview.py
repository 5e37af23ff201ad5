"""What unpausing would create is what unpausing creates: the preview and the schedulers ask the same function."""

import itertools
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from tests.control import BATCH, Control, graph
from turnout.metadata import pausing, runs
from turnout.metadata.dags import DeclaredDag, save_dag
from turnout.metadata.listings.upcoming import Creation, UpcomingRun, list_upcoming, preview_unpausing
from turnout.metadata.planning import upcoming_runs
from turnout.metadata.runs import NewRun
from turnout.metadata.timings import read_timings
from turnout.scheduler.create_runs import create_due_runs
from turnout.tasks import (
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    EventsTimetable,
    MultipleCronTriggerTimetable,
    Timetable,
)
from turnout.tasks.schedule import CatchUp
from turnout.tasks.serialization import content_hash, serialize

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
SCHEDULES: list[str | timedelta | Timetable | None] = [
    None,
    "@once",
    "@continuous",
    "@daily",
    "0 */7 * * *",
    timedelta(hours=9),
    CronTriggerTimetable("30 5 * * *", "Asia/Tokyo", timedelta(hours=3)),
    MultipleCronTriggerTimetable("@daily", "0 12 * * 1-5", timezone="America/Havana"),
    DeltaTriggerTimetable(timedelta(hours=9)),
    EventsTimetable([TODAY + timedelta(days=day) for day in range(-9, 9, 2)]),
]
_count = itertools.count()


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    schedule=st.sampled_from(SCHEDULES),
    catchup=st.sampled_from(CatchUp),
    start=st.integers(-12, 1),
    end=st.none() | st.integers(-4, 3),
    ran=st.integers(0, 6),
    by_hand=st.sets(st.integers(-8, 0), max_size=3),
    room=st.sampled_from([1, 2, 5, 100]),
    jitter=st.sampled_from([None, timedelta(hours=20)]),
)
def test_the_preview_lists_exactly_the_runs_that_are_then_created(
    control: Control,
    *,
    schedule: str | timedelta | Timetable | None,
    catchup: CatchUp,
    start: int,
    end: int | None,
    ran: int,
    by_hand: set[int],
    room: int,
    jitter: timedelta | None,
) -> None:
    follows = schedule == "@continuous"
    dag = graph(
        f"d{next(_count)}",
        {"a": []},
        schedule=schedule,
        catchup=str(catchup),
        start_date=TODAY + timedelta(days=start),
        end_date=None if end is None else TODAY + timedelta(days=max(start, end)),
        max_active_runs=1 if follows else room,
        jitter=None if follows else jitter,
    )
    content = serialize(dag)
    with control.engine.connect() as connection:  # one transaction, hence one moment; it is rolled back
        declared = DeclaredDag(dag.dag_id, content_hash(content), content)
        save_dag(connection, "d.py", declared, paused_at_creation=True)
        connection.execute(text("UPDATE dag SET scheduled_since = now() - interval '10 days'"))
        let_run(connection, dag.dag_id, ran, by_hand)
        foreseen = preview_unpausing(connection, dag.dag_id, 1000).rows
        pausing.set_paused(connection, dag.dag_id, paused=False, actor="test")
        batches = list(iter(lambda: create_and_end(connection, dag.dag_id), []))
        assert [run.logical_date for run in foreseen] == [date for batch in batches for date in batch]
        at_once = [run.logical_date for run in foreseen if run.creation is Creation.AT_ONCE]
        assert at_once == (batches[0] if batches else [])
        assert_recorded(connection, dag.dag_id, list_upcoming(connection, dag.dag_id, 1))


def let_run(connection: Connection, dag_id: str, scheduled: int, by_hand: set[int]) -> None:
    """Have the timetable, as it stands, run some times; and a person at some midnights."""
    [(timing, now)] = read_timings(connection, [dag_id])
    for run in itertools.islice(upcoming_runs(timing, now), scheduled):
        if run.run_after <= now:
            runs.create_runs(
                connection, [NewRun(dag_id, str(run.run_after), "scheduled", run[1][0], *run[1], run.run_after)]
            )
    for day in by_hand:
        date = TODAY + timedelta(days=day)
        runs.create_runs(connection, [NewRun(dag_id, f"by hand {day}", "manual", date, date, date, now)])
    end_all(connection)


def create_and_end(connection: Connection, dag_id: str) -> list[datetime]:
    before = set(connection.scalars(text("SELECT id FROM dag_run WHERE dag_id = :d"), {"d": dag_id}))
    create_due_runs(connection, BATCH)
    new = connection.execute(text("SELECT id, logical_date FROM dag_run WHERE dag_id = :d ORDER BY 2"), {"d": dag_id})
    created = [row.logical_date for row in new if row.id not in before]
    end_all(connection)
    return created


def end_all(connection: Connection) -> None:
    connection.execute(text("UPDATE dag_run SET state = 'running' WHERE state = 'queued'"))
    connection.execute(text("UPDATE dag_run SET state = 'success' WHERE state = 'running'"))


def assert_recorded(connection: Connection, dag_id: str, upcoming: list[UpcomingRun]) -> None:
    recorded = connection.scalar(text("SELECT next_run_after FROM dag WHERE dag_id = :d"), {"d": dag_id})
    assert recorded == (upcoming[0].run_after if upcoming else None)
