"""Why a run does not start, or what it still has to do."""

from turnout.metadata.engine import Connection
from turnout.metadata.listings.explanations import Reason, RunExplanation, Why
from turnout.metadata.listings.run_facts import RunFacts, queued_before, read_run_facts, running_runs, unfinished_tasks
from turnout.metadata.listings.runs import find_run
from turnout.metadata.listings.spoken import counted, duration, listed
from turnout.metadata.states import RunState
from turnout.scheduler.explaining.surroundings import dag_reasons, scheduler_reasons
from turnout.scheduler.explaining.wording import waits_for


def explain_run(connection: Connection, dag_id: str, run_id: str) -> RunExplanation:
    """Say what a run waits for, or what it still has to do.

    Raises:
        NotFoundError: there is no such DAG or run.
    """
    run = read_run_facts(connection, find_run(connection, dag_id, run_id))
    if run.state == RunState.QUEUED:
        reasons = reasons_not_started(connection, run)
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


def reasons_not_started(connection: Connection, run: RunFacts) -> list[Reason]:
    """Name all that keeps a queued run from starting; that it can start, when nothing does."""
    reasons = [
        *dag_reasons(run, needs_file=True),
        *_not_due(run),
        *_no_room(connection, run),
        *scheduler_reasons(connection),
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


def _no_room(connection: Connection, run: RunFacts) -> list[Reason]:
    """Compare the DAG's running runs, and the queued ones before this one, with `max_active_runs`."""
    running, most = running_runs(connection, run.dag_id), run.max_active_runs
    before = queued_before(connection, run)
    remedy = f"Wait for one to end, or raise max_active_runs in the file of DAG {run.dag_id}."
    reasons = []
    if running.count >= most:
        message = (
            f"{counted(running.count, 'run')} of DAG {run.dag_id} of at most {most} are running (max_active_runs): "
            f"{listed(running.run_ids, running.count)}."
        )
        reasons.append(
            Reason(
                Why.MAX_ACTIVE_RUNS,
                message,
                remedy,
                limit=most,
                used=running.count,
                needed=1,
                who=running.run_ids,
                who_count=running.count,
            )
        )
    if before.count and running.count + before.count >= most:
        message = (
            f"{counted(before.count, 'queued run')} of the DAG start before it: {listed(before.run_ids, before.count)}."
        )
        reasons.append(
            Reason(
                Why.RUNS_BEFORE,
                message,
                remedy,
                limit=most,
                used=running.count,
                needed=before.count + 1,
                who=before.run_ids,
                who_count=before.count,
            )
        )
    return reasons


def _reasons_of_running(connection: Connection, run: RunFacts) -> list[Reason]:
    tasks = unfinished_tasks(connection, run.id)
    said = ", ".join(f"{number} {state} ({listed(first, number)})" for state, (number, first) in tasks.items())
    total = sum(number for number, _ in tasks.values())
    left = f"{counted(total, 'task')} not finished: {said}" if tasks else "all its tasks have ended, and it ends next"
    message = f"Run {run.run_id} runs since {_since(run)}: {left}."
    see = f"See one: turnout tasks explain {run.dag_id} {run.run_id} TASK_ID" if tasks else "Nothing to do."
    reasons = [Reason(Why.TASKS_UNFINISHED, message, see, is_blocking=False, needed=total, until=run.timeout_at)]
    return [*reasons, *dag_reasons(run, needs_file=False), *scheduler_reasons(connection)]


def _since(run: RunFacts) -> str:
    return duration((run.now - (run.started_at or run.queued_at)).total_seconds())


def _ago(run: RunFacts) -> str:
    return f"{duration((run.now - run.ended_at).total_seconds())} ago" if run.ended_at else "some time ago"
