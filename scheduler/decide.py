"""Step 3, decide: turn the news of runs into new states of their task instances, and finish runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import structlog

from turnout.metadata import decisions
from turnout.metadata.decisions import LockedRun, RunNews
from turnout.metadata.engine import Connection
from turnout.metadata.pausing import pause_failing
from turnout.metadata.runs import finish_running
from turnout.metadata.states import RunState
from turnout.metadata.versions import Content, VersionCache
from turnout.scheduler.board import Board
from turnout.scheduler.guard import TOGETHER, Each
from turnout.tasks.deciding import past_for, run_ending

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Decided:
    """What one decision did: runs looked at, task instances moved, runs finished."""

    runs: int = 0
    moved: int = 0
    finished: int = 0


def decide(connection: Connection, versions: VersionCache, limit: int, each: Each = TOGETHER) -> Decided:
    """Decide for the runs that have news, end those whose time is over, and schedule the retries that are due.

    Args:
        connection: the transaction.
        versions: contents of DAG versions.
        limit: most wake-ups, most time-outs, and most retries, to take in hand.
        each: how to deal with the runs; one by one when one of them makes trouble.
    """
    due = decisions.schedule_due(connection, limit)
    late = decisions.lock_timed_out(connection, limit)
    done = each(late, lambda runs: _time_out(connection, versions, runs), _words)
    news = decisions.lock_runs_with_news(connection, limit)
    done += each(news, lambda runs: _decide_for(connection, versions, runs), _words)
    return Decided(
        runs=sum(part.runs for part in done),
        moved=due + sum(part.moved for part in done),
        finished=sum(part.finished for part in done),
    )


def _time_out(connection: Connection, versions: VersionCache, runs: Sequence[LockedRun]) -> Decided:
    """Fail runs that have taken too long, and skip what is left of them; workers end what still runs."""
    contents = versions.get(connection, {run.dag_version_id for run in runs})
    stopped = decisions.stop_for_timeout(connection, [run.id for run in runs])
    waiting = {run.id: _past_for(contents[run.dag_version_id], stopped[run.id]) for run in runs}
    decisions.wake_next_runs(connection, waiting)
    by_id = {run.id: contents[run.dag_version_id] for run in runs}
    finished = _finish(connection, dict.fromkeys(by_id, RunState.FAILED), by_id)
    return Decided(len(runs), sum(map(len, stopped.values())), finished)


def _decide_for(connection: Connection, versions: VersionCache, news: Sequence[RunNews]) -> Decided:
    running = [run for run in news if run.is_running]
    contents = versions.get(connection, {run.dag_version_id for run in running})
    boards = {run.id: Board(contents[run.dag_version_id], run.changed) for run in running}
    moved = _decide_all(connection, boards)
    moved += _stop_failed(connection, boards)
    decisions.wake_next_runs(connection, {run: board.waiting_in_next_run() for run, board in boards.items()})
    return Decided(len(news), moved, _finish_ended(connection, boards))


def _decide_all(connection: Connection, boards: dict[int, Board]) -> int:
    """Read and decide in turns: one statement serves all runs, and a turn follows only where a decision led on."""
    while open_boards := {run: board for run, board in boards.items() if not board.is_done}:
        states = decisions.read_states(connection, {run: board.wanted() for run, board in open_boards.items()})
        for run, board in open_boards.items():
            board.learn(states[run])
        past = decisions.read_past(connection, {run: board.wanted_past() for run, board in open_boards.items()})
        for run, board in open_boards.items():
            board.learn_past(past[run])
            board.decide()
    moves = [(run, task, state) for run, board in boards.items() for task, state in board.take_moves()]
    return decisions.set_states(connection, moves)


def _stop_failed(connection: Connection, boards: dict[int, Board]) -> int:
    """Stop what is unfinished in the runs that are to fail fast, and decide for their teardowns."""
    failed = {run: board for run, board in boards.items() if board.must_stop}
    if not failed:
        return 0
    stopped = decisions.stop_for_failure(connection, {run: board.teardowns for run, board in failed.items()})
    for run, board in failed.items():
        board.note_stopped(stopped[run])
    return sum(map(len, stopped.values())) + _decide_all(connection, failed)


def _finish_ended(connection: Connection, boards: dict[int, Board]) -> int:
    over = decisions.without_unfinished(connection, list(boards))
    leaves = decisions.read_states(connection, {run: boards[run].leaves for run in over})
    endings = {run: RunState(run_ending(states.values())) for run, states in leaves.items()}
    return _finish(connection, endings, {run: boards[run].content for run in over})


def _finish(connection: Connection, endings: dict[int, RunState], contents: dict[int, Content]) -> int:
    finished = finish_running(connection, endings)
    for run in finished:
        log.info("run.finished", dag_id=run.dag_id, run_id=run.run_id, state=run.state)
    failed = {run.dag_id: contents[run.id] for run in finished if run.state is RunState.FAILED}
    limits = {dag_id: content["max_consecutive_failed_dag_runs"] for dag_id, content in failed.items()}
    for dag_id in pause_failing(connection, {dag_id: limit for dag_id, limit in limits.items() if limit}):
        log.warning("dag.paused", dag_id=dag_id, consecutive_failed_runs=limits[dag_id])
    return len(finished)


def _past_for(content: Content, ended: Iterable[str]) -> set[str]:
    tasks = content["tasks"]
    return {other for task in ended if task in tasks for other in past_for(tasks, task)}


def _words(run: LockedRun) -> dict[str, str]:
    return {"dag_id": run.dag_id, "run_id": run.run_id}
