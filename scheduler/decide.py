"""Step 3, decide: turn the news of runs into new states of their task instances, and finish runs."""

from dataclasses import dataclass

import structlog

from turnout.metadata import decisions
from turnout.metadata.engine import Connection
from turnout.metadata.runs import finish_running
from turnout.metadata.states import TaskState
from turnout.metadata.versions import VersionCache
from turnout.scheduler.board import Board, run_state

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Decided:
    """What one decision did: runs looked at, task instances moved, runs finished."""

    runs: int = 0
    moved: int = 0
    finished: int = 0


def decide(connection: Connection, versions: VersionCache, limit: int) -> Decided:
    """Decide for the runs that have news, and schedule the retries that are due.

    Args:
        connection: the transaction.
        versions: contents of DAG versions.
        limit: most wake-ups, and most retries, to take in hand.
    """
    due = decisions.schedule_due(connection, limit)
    news = decisions.lock_runs_with_news(connection, limit)
    running = [run for run in news if run.is_running]
    contents = versions.get(connection, {run.dag_version_id for run in running})
    boards = {run.dag_run_id: Board(contents[run.dag_version_id], run.changed) for run in running}
    _decide_all(connection, boards)
    moved = decisions.set_states(connection, _moves(boards))
    return Decided(len(news), due + moved, _finish(connection, boards))


def _decide_all(connection: Connection, boards: dict[int, Board]) -> None:
    """Read and decide in turns: one statement serves all runs, and a turn follows only where a decision led on."""
    while open_boards := {run: board for run, board in boards.items() if not board.is_done}:
        states = decisions.read_states(connection, {run: board.wanted() for run, board in open_boards.items()})
        for run, board in open_boards.items():
            board.learn(states[run])
            board.decide()


def _moves(boards: dict[int, Board]) -> list[tuple[int, str, TaskState]]:
    return [(run, task, state) for run, board in boards.items() for task, state in sorted(board.decided.items())]


def _finish(connection: Connection, boards: dict[int, Board]) -> int:
    over = decisions.without_unfinished(connection, list(boards))
    leaves = decisions.read_states(connection, {run: boards[run].leaves() for run in over})
    finished = finish_running(connection, {run: run_state(states.values()) for run, states in leaves.items()})
    for dag_id, run_id, state in finished:
        log.info("run.finished", dag_id=dag_id, run_id=run_id, state=state)
    return len(finished)
