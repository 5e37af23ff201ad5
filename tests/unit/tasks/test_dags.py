from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from turnout.tasks import DAG, CronDataIntervalTimetable, EmptyOperator, EventsTimetable, Timetable, dag, task
from turnout.tasks.errors import DagError
from turnout.tasks.timetables import NullTimetable, timetable_to_json

EAST, WEST = timezone(timedelta(hours=5)), timezone(timedelta(hours=-5))
START = datetime(2013, 1, 1, tzinfo=UTC)


def test_a_dag_has_the_defaults_of_airflow() -> None:
    plain = DAG("plain")
    assert (plain.catchup, plain.max_active_runs, plain.tags) == ("latest", 16, [])
    assert plain.timetable == NullTimetable()
    assert plain.is_paused_upon_creation is None


def test_a_naive_start_date_is_utc_and_an_aware_one_gives_the_schedule_its_zone() -> None:
    assert DAG("naive", start_date=datetime(2013, 1, 1), schedule="@daily").start_date == START  # noqa: DTZ001
    berlin = DAG("berlin", start_date=datetime(2013, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), schedule="@daily")
    assert berlin.start_date == datetime(2012, 12, 31, 23, tzinfo=UTC)
    assert berlin.timetable == CronDataIntervalTimetable("0 0 * * *", "Europe/Berlin")


def test_start_and_end_date_may_stand_in_default_args() -> None:
    dates = {"start_date": datetime(2013, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo")), "end_date": START}
    tokyo = DAG("tokyo", default_args=dates, schedule="@daily")
    assert (tokyo.start_date, tokyo.end_date) == (datetime(2012, 12, 31, 15, tzinfo=UTC), START)
    assert tokyo.timetable == CronDataIntervalTimetable("@daily", "Asia/Tokyo")


def test_fixed_offsets_are_zones_too() -> None:
    offset = DAG(
        "offset", start_date=datetime(2013, 1, 1, tzinfo=timezone(timedelta(hours=-3, minutes=-30))), schedule="@daily"
    )
    assert offset.timetable.to_json()["timezone"] == "-03:30"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"shedule": "@daily"}, "DAG has no argument 'shedule': did you mean 'schedule'?"),
        ({"dagrun_timeout": -timedelta(1)}, "dagrun_timeout must not be negative"),
        ({"max_active_tasks": 0}, "max_active_tasks must be at least 1"),
        ({"max_consecutive_failed_dag_runs": -1}, "max_consecutive_failed_dag_runs must be at least 0"),
        ({"fail_fast": 1}, "fail_fast must be True or False"),
        ({"deadline": timedelta(1)}, "does not support 'deadline' yet"),
        ({"schedule": 5}, "schedule=5 is no schedule"),
        ({"schedule": "@dayly"}, "no schedule preset '@dayly'"),
        ({"schedule": "* * *"}, "cron expression '\\* \\* \\*' is not valid"),
        ({"start_date": "2013-01-01"}, "start_date must be a datetime"),
        ({"start_date": date(2013, 1, 1)}, "start_date must be a datetime"),
        ({"start_date": datetime(2013, 1, 1, 0, 0, 0, 7, tzinfo=UTC)}, "looks like datetime.now\\(\\)"),
        ({"start_date": START, "end_date": START - timedelta(1)}, "end_date 2012-12-31 00:00 is before start_date"),
        ({"start_date": datetime(1, 1, 1, tzinfo=UTC)}, "start_date 0001-01-01 .* must be in the years 1000 to 8999"),
        ({"start_date": datetime(9999, 12, 31, tzinfo=UTC)}, "start_date 9999-12-31 .* the years 1000 to 8999"),
        ({"end_date": datetime(1, 1, 1, tzinfo=EAST)}, "end_date 0001-01-01 .* must be in the years 1000 to 9999"),
        ({"end_date": datetime(9999, 12, 31, 23, tzinfo=WEST)}, "end_date 9999-12-31 .* the years 1000 to 9999"),
        ({"schedule": "@daily", "catchup": True}, "catchup=True needs a start_date"),
        ({"schedule": "@daily", "catchup": "coalesce"}, "catchup='coalesce' needs a start_date"),
        ({"catchup": "yes"}, "catchup 'yes' does not exist: use 'none' or 'latest' or 'all' or 'coalesce'"),
        ({"jitter": -timedelta(1)}, "jitter must not be negative"),
        ({"schedule": "@continuous", "max_active_runs": 2}, "'@continuous' needs max_active_runs=1"),
        ({"schedule": "@continuous"}, "'@continuous' needs max_active_runs=1"),
        (
            {"schedule": "@continuous", "max_active_runs": 1, "jitter": timedelta(1)},
            "'@continuous' has no use for jitter",
        ),
        ({"tags": "sales"}, "tags must be a list of texts"),
        ({"tags": 5}, "tags must be a list of texts"),
        ({"template_searchpath": 5}, "template_searchpath must be a path or a list of paths, not 5"),
        ({"user_defined_macros": "ab"}, "user_defined_macros must be a dict of names, not 'ab'"),
        ({"user_defined_filters": [1]}, "user_defined_filters must be a dict of names"),
        ({"tags": ["x" * 101]}, "must have 1 to 100 characters"),
        ({"params": ["n"]}, "params must be a dict"),
        ({"params": {"n": {1, 2}}}, "The param 'n' cannot be kept. The value is set, which JSON cannot hold"),
        ({"max_active_runs": 0}, "max_active_runs must be at least 1, not 0"),
        ({"max_active_runs": True}, "max_active_runs must be a whole number"),
        ({"default_args": [1]}, "default_args must be a dict"),
        ({"description": 1}, "description must be a text, not 1"),
        ({"is_paused_upon_creation": "no"}, "is_paused_upon_creation must be True or False"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_dag_and_the_remedy(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(DagError, match=f"^DAG 'sales': .*{words}"):
        DAG("sales", **arguments)


@pytest.mark.parametrize("dag_id", ["", "my dag", "a/b", "größe", "a\n", "x" * 251, 7])
def test_an_id_that_airflow_would_not_take_is_refused(dag_id: Any) -> None:
    with pytest.raises(DagError, match="dag_id"):
        DAG(dag_id)


def test_a_timetable_of_the_authors_own_is_known_to_schedulers_by_name_only() -> None:
    class Lunar(NullTimetable):
        pass

    assert timetable_to_json(DAG("moon", schedule=Lunar()).timetable) == {"type": "custom", "summary": "None"}
    given: Timetable = CronDataIntervalTimetable("@daily", "Asia/Tokyo")
    assert DAG("tokyo", schedule=given).timetable == given


@pytest.mark.parametrize(
    ("schedule", "given", "policy"),
    [
        ("@daily", True, "all"),
        ("@daily", False, "latest"),
        ("@daily", "none", "none"),
        ("@daily", "coalesce", "coalesce"),
        (EventsTimetable([START]), False, "none"),
        (EventsTimetable([START]), "latest", "latest"),
    ],
)
def test_true_and_false_are_policies_for_missed_runs_as_in_airflow(schedule: Any, given: Any, policy: str) -> None:
    assert DAG("sales", schedule=schedule, start_date=START, catchup=given).catchup == policy


@pytest.mark.parametrize("schedule", [None, "@once", "@continuous", EventsTimetable([START])])
def test_what_begins_by_itself_needs_no_start_date_to_catch_up(schedule: Any) -> None:
    assert DAG("sales", schedule=schedule, catchup=True, max_active_runs=1).start_date is None


def test_a_start_date_of_the_dag_comes_before_one_of_its_default_args() -> None:
    later = {"start_date": START - timedelta(days=5)}
    assert DAG("sales", start_date=START, default_args=later).start_date == START


def test_tasks_join_the_dag_of_the_block_they_are_declared_in() -> None:
    with DAG("outer") as outer:
        first = EmptyOperator(task_id="first")
        with DAG("inner") as inner:
            EmptyOperator(task_id="other")
        EmptyOperator(task_id="second")
    assert outer.task_ids == ["first", "second"]
    assert inner.task_ids == ["other"]
    assert outer.get_task("first") is first
    with pytest.raises(DagError, match="DAG 'outer' has no task 'third'; it has first, second"):
        outer.get_task("third")


def test_the_same_task_id_twice_is_refused_with_the_first_ones_line() -> None:
    with DAG("twice"):
        EmptyOperator(task_id="load")
        with pytest.raises(
            DagError, match=r"DAG 'twice', task 'load': there is a task of this id already \(line \d+\)"
        ):
            EmptyOperator(task_id="load")


def test_a_cycle_is_spelled_out() -> None:
    with DAG("round") as rounded:
        a, b, c = (EmptyOperator(task_id=name) for name in "abc")
        a >> b >> c >> a
    with pytest.raises(
        DagError, match=r"DAG 'round' has a cycle: (a >> b >> c >> a|b >> c >> a >> b|c >> a >> b >> c)\."
    ):
        rounded.validate()


def test_default_args_reach_the_tasks_unless_they_have_their_own() -> None:
    with DAG("defaults", default_args={"retries": 3, "owner": "ann"}) as defaults:
        one = EmptyOperator(task_id="one")
        two = EmptyOperator(task_id="two", retries=0)
    assert (one.retries, two.retries, defaults.owner) == (3, 0, "ann")


def test_a_key_of_default_args_that_no_task_takes_is_refused() -> None:
    with pytest.raises(DagError, match="DAG 'typo': default_args has no argument 'retrys': did you mean 'retries'"):
        DAG("typo", default_args={"retrys": 3}).validate()


def test_what_airflow_dags_switch_off_by_habit_may_stay_off() -> None:
    habits = {"depends_on_past": False, "email_on_failure": False, "email": []}
    with DAG("habits", default_args=habits) as habitual:
        EmptyOperator(task_id="one", depends_on_past=False)  # type: ignore[arg-type]
    habitual.validate()
    with pytest.raises(DagError, match="default_args does not support 'email_on_failure' yet"):
        DAG("mail", default_args={"email_on_failure": True}).validate()


def test_a_dag_function_declares_a_dag_with_its_arguments_as_params() -> None:
    @dag(schedule="@daily", start_date=START, params={"region": "eu"})
    def sales(limit: int = 10) -> None:
        """Sum up the sales."""

        @task
        def total(limit: int) -> int:
            return limit

        total(limit)

    declared = sales(limit=20)
    assert (declared.dag_id, declared.doc_md, declared.params) == (
        "sales",
        "Sum up the sales.",
        {"region": "eu", "limit": 20},
    )
    assert declared.test(logical_date=START).results == {"total": 20}
    assert sales().params["limit"] == 10


def test_a_dag_function_may_have_another_id_or_none_of_its_own() -> None:
    @dag("named", tags=["x"])
    def one() -> None: ...

    @dag
    def two() -> None: ...

    assert (one().dag_id, one().tags, two().dag_id) == ("named", ["x"], "two")


def test_a_dag_function_that_is_called_wrongly_says_so() -> None:
    @dag
    def sales(limit: int) -> None: ...

    with pytest.raises(
        DagError, match=r"The @dag function sales\(\) was called wrongly: missing a required argument: 'limit'"
    ):
        sales()  # type: ignore[call-arg]
