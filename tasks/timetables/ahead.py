"""Plan the runs of an author's own timetable ahead: only a process that has loaded its file can compute them."""

from datetime import datetime
from typing import NamedTuple

from turnout.tasks.errors import DagError
from turnout.tasks.timetables.timetable import DagRunInfo, DataInterval, TimeRestriction, Timetable
from turnout.tasks.zones import as_utc

#: So many runs to come are planned at a time. A timetable of every minute is asked again after two hours and a half.
PLANNED_RUNS = 200
#: Nobody means more runs than this to have been missed: ten weeks of every minute.
MOST_MISSED = 100_000


class Plan(NamedTuple):
    """The next runs of a timetable, and whether there will be more after them."""

    runs: list[DagRunInfo]
    is_open: bool


def plan_ahead(  # noqa: PLR0917
    timetable: Timetable,
    last: DataInterval | None,
    start: datetime | None,
    end: datetime | None,
    catchup: str,
    now: datetime,
) -> Plan:
    """Ask a timetable for its next runs: those that are due, as far as the policy needs them, and those to come.

    Args:
        timetable: the timetable.
        last: the data interval of the last scheduled run, if there was one.
        start: the DAG's start date.
        end: the DAG's end date.
        catchup: the DAG's policy for runs that were missed.
        now: the present moment.

    Raises:
        DagError: it answers with something that is no run, or not later than the one before, or with too many.
    """
    restriction = TimeRestriction(start, end, catchup in ("all", "coalesce"))
    due: list[DagRunInfo] = []
    coming: list[DagRunInfo] = []
    missed = 0
    while len(coming) < PLANNED_RUNS and not (catchup == "all" and len(due) >= PLANNED_RUNS):
        run = _ask(timetable, last, restriction)
        if run is None:
            return Plan(_needed(due, catchup) + coming, is_open=False)
        (due if run.run_after <= now else coming).append(run)
        missed += run.run_after <= now
        if missed > MOST_MISSED:
            raise DagError(
                f"its timetable {timetable.summary} gives more than {MOST_MISSED:,} runs that were missed, up to "
                f"{run.run_after}: begin with a later start_date, or at the latest run if not restriction.catchup."
            )
        due = _needed(due, catchup)
        last = run.data_interval
    return Plan(due + coming, is_open=True)


def _needed(due: list[DagRunInfo], catchup: str) -> list[DagRunInfo]:
    """Leave out those of the due runs that the policy has no use for; the first may be taken by runs by hand."""
    if catchup == "all":
        return due
    if catchup != "coalesce":
        return due[-1:]
    return due if len(due) <= PLANNED_RUNS else [*due[: PLANNED_RUNS // 2], *due[-PLANNED_RUNS // 2 + 1 :]]


def _ask(timetable: Timetable, last: DataInterval | None, restriction: TimeRestriction) -> DagRunInfo | None:
    answer: object = timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
    if answer is None:
        return None
    if not isinstance(answer, DagRunInfo):
        raise DagError(f"its timetable {timetable.summary} answers with {answer!r}: return a DagRunInfo, or None.")
    if not isinstance(answer.data_interval, DataInterval) or not all(
        isinstance(moment, datetime) for moment in (answer.run_after, *answer.data_interval)
    ):
        raise DagError(
            f"its timetable {timetable.summary} answers with {answer!r}: return "
            "DagRunInfo(run_after, DataInterval(start, end)) of three datetimes with a time zone."
        )
    if any(moment.tzinfo is None for moment in (answer.run_after, *answer.data_interval)):
        raise DagError(f"its timetable {timetable.summary} answers with moments without a time zone: {answer!r}.")
    run = DagRunInfo(as_utc(answer.run_after), DataInterval(*map(as_utc, answer.data_interval)))
    interval = run.data_interval
    if interval.end < interval.start:
        raise DagError(
            f"its timetable {timetable.summary} answers with {answer!r}, whose interval ends before it starts."
        )
    if last is not None and (interval.start <= last.start or interval.end <= last.end):
        raise DagError(
            f"its timetable {timetable.summary} answers with {answer!r} after a run from {last.start} to {last.end}: "
            "each data interval must start later than the one before (its start is the logical date), and end later."
        )
    return run
