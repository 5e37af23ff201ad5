"""Why a run does not start, or what it still has to do."""

from dataclasses import replace

from turnout.config.settings import SchedulerSettings
from turnout.metadata.engine import Connection
from turnout.metadata.listings.explanations import Reason, RunExplanation, Why
from turnout.metadata.listings.run_facts import (
    RunFacts,
    Runs,
    queued_before,
    queued_in_other_line,
    read_run_facts,
    running_runs,
    unfinished_tasks,
)
from turnout.metadata.listings.runs import find_run
from turnout.metadata.listings.spoken import counted, duration, listed
from turnout.metadata.starting import read_lines
from turnout.metadata.states import RunState
from turnout.scheduler.explaining.surroundings import dag_reasons, scheduler_reasons
from turnout.scheduler.explaining.wording import waits_for
from turnout.scheduler.turns import share_out


def explain_run(
    connection: Connection, dag_id: str, run_id: str, *, settings: SchedulerSettings | None = None
) -> RunExplanation:
    """Say what a run waits for, or what it still has to do.

    Args:
        connection: where to read; nothing is locked or changed.
        dag_id: the DAG.
        run_id: the run.
        settings: those of the schedulers, for the limits that stand there.

    Raises:
        NotFoundError: there is no such DAG or run.
    """
    run = read_run_facts(connection, find_run(connection, dag_id, run_id))
    if run.state == RunState.QUEUED:
        reasons = reasons_not_started(connection, run, settings or SchedulerSettings())
    elif run.state == RunState.RUNNING:
        reasons = _reasons_of_running(connection, run)
    else:
        message = f"Run {run_id} has ended: {run.state}, {_ago(run)}."
        reasons = [Reason(Why.RUN_FINISHED, message, "Nothing to do.", is_blocking=False)]
    said = waits_for(reasons)
    verdict = f"Run {run_id} is {run.state} and waits: {said}." if said else reasons[0].message
    if said and run.state == RunState.RUNNING:
        verdict = f"{reasons[0].message.removesuffix('.')}, and waits: {said}."
    return RunExplanation(dag_id, run_id, run.state, verdict, said or None, reasons)


def reasons_not_started(connection: Connection, run: RunFacts, settings: SchedulerSettings) -> list[Reason]:
    """Name all that keeps a queued run from starting; that it can start, when nothing does."""
    reasons = [
        *dag_reasons(run, needs_file=True),
        *_not_due(run),
        *_no_room(connection, run, settings),
        *scheduler_reasons(connection, {"dag_id": run.dag_id, "step": "start_runs"}),
    ]
    if any(reason.is_blocking for reason in reasons):
        return reasons
    message = f"Run {run.run_id} can start now: the next pass of a scheduler will start it."
    return [Reason(Why.CAN_START, message, "Nothing to do.", is_blocking=False), *reasons]


def _not_due(run: RunFacts) -> list[Reason]:
    if run.run_after <= run.now:
        return []
    wait = duration((run.run_after - run.now).total_seconds())
    message = f"It is to start at {run.run_after:%Y-%m-%d %H:%M:%S} UTC, in {wait}."
    return [Reason(Why.RUN_AFTER, message, "Wait, or trigger another run by hand.", until=run.run_after)]


def _no_room(connection: Connection, run: RunFacts, settings: SchedulerSettings) -> list[Reason]:
    """Compare the DAG's running runs, and the queued ones whose turn comes first, with `max_active_runs`."""
    running, most = running_runs(connection, run.dag_id), run.max_active_runs
    before = queued_before(connection, run)
    reasons = []
    if running.count >= most:
        message = (
            f"{counted(running.count, 'run')} of DAG {run.dag_id} of at most {most} are running (max_active_runs): "
            f"{listed(running.run_ids, running.count)}."
        )
        reasons.append(_of_runs(Why.MAX_ACTIVE_RUNS, message, run, running))
    if before.count and running.count + before.count >= most:
        many = counted(before.count, "queued run")
        message = f"Before it in the line of the DAG: {many} ({listed(before.run_ids, before.count)})."
        reasons.append(_of_runs(Why.RUNS_BEFORE, message, run, before))
    if not reasons and run.run_after <= run.now and not _is_its_turn(connection, run, before, settings):
        others = queued_in_other_line(connection, run)
        line = "other runs" if run.is_backfill else "backfill runs"
        message = (
            f"The next starts are those of {line} of the DAG: {listed(others.run_ids, others.count)} (a share of "
            f"{settings.backfill_share:g} of max_active_runs, {most}, is for backfills)."
        )
        reasons.append(_of_runs(Why.BACKFILL_SHARE, message, run, others))
    return [replace(reason, used=running.count) for reason in reasons]


def _is_its_turn(connection: Connection, run: RunFacts, before: Runs, settings: SchedulerSettings) -> bool:
    """Ask whose turn it is, as whoever starts runs does."""
    lines = read_lines(connection, [run.dag_id], settings.batch_size)
    starts = share_out(lines, settings.batch_size, settings.backfill_share)
    return any((start.backfills if run.is_backfill else start.runs) > before.count for start in starts)


def _of_runs(why: Why, message: str, run: RunFacts, runs: Runs) -> Reason:
    return Reason(
        why,
        message,
        f"Wait for a run to end, or raise max_active_runs in the file of DAG {run.dag_id}.",
        run.dag_id,
        limit=run.max_active_runs,
        needed=1,
        who=runs.run_ids,
        who_count=runs.count,
    )


def _reasons_of_running(connection: Connection, run: RunFacts) -> list[Reason]:
    tasks = unfinished_tasks(connection, run.id)
    said = ", ".join(f"{number} {state} ({listed(first, number)})" for state, (number, first) in tasks.items())
    total = sum(number for number, _ in tasks.values())
    left = f"{counted(total, 'task')} not finished: {said}" if tasks else "all its tasks have ended, and it ends next"
    message = f"Run {run.run_id} has been running for {_since(run)}: {left}."
    see = f"See one: turnout tasks explain {run.dag_id} {run.run_id} TASK_ID" if tasks else "Nothing to do."
    reasons = [Reason(Why.TASKS_UNFINISHED, message, see, is_blocking=False, needed=total, until=run.timeout_at)]
    return [
        *reasons,
        *dag_reasons(run, needs_file=False),
        *scheduler_reasons(connection, {"dag_id": run.dag_id, "run_id": run.run_id}),
    ]


def _since(run: RunFacts) -> str:
    return duration((run.now - (run.started_at or run.queued_at)).total_seconds())


def _ago(run: RunFacts) -> str:
    return f"{duration((run.now - run.ended_at).total_seconds())} ago" if run.ended_at else "some time ago"
