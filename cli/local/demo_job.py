"""The job of the demo: catch up on January, and lose a scheduler on the way."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from rich.console import Console
from rich.progress import Progress

from turnout.cli.local.demo_platform import SCHEDULERS, WORKERS, DemoPlatform
from turnout.cli.local.errors import LocalError
from turnout.cli.local.supervisor import Ended
from turnout.metadata.engine import Connection
from turnout.metadata.listings.dags import list_dags
from turnout.metadata.listings.history import PastAttempt, list_past_attempts, read_clock
from turnout.metadata.listings.import_errors import ImportErrorRow, list_import_errors
from turnout.metadata.listings.processes import list_schedulers, list_workers
from turnout.metadata.listings.runs import RunRow, list_runs
from turnout.metadata.pausing import set_paused
from turnout.metadata.pools import set_pool

DAG_ID = "flights_daily"
POOL, POOL_SLOTS = "warehouse", 2
RUNS, TASKS_OF_A_RUN = 31, 6
#: A third of the job: enough behind us to compare with, enough before us to be lost.
KILL_AFTER = RUNS * TASKS_OF_A_RUN // 3
#: How often the database is asked how far the job is.
LOOK_S = 0.25
#: When nothing has happened for so long, nothing will; a lease of the dead scheduler is 10 s.
PATIENCE_S = 60.0
ACTOR = "cli:demo"


@dataclass(frozen=True)
class Kill:
    """The scheduler that was killed: when, by the clock of the database."""

    ended: Ended
    at: datetime


@dataclass
class History:
    """What happened, as the database tells it."""

    runs: list[RunRow] = field(default_factory=list)
    attempts: list[PastAttempt] = field(default_factory=list)
    kill: Kill | None = None
    #: Processes that ended though nobody asked them to.
    deaths: list[Ended] = field(default_factory=list)

    @property
    def succeeded(self) -> int:
        """How many attempts succeeded."""
        return sum(attempt.outcome == "success" for attempt in self.attempts)

    @property
    def is_over(self) -> bool:
        """Whether every run has ended, well or not."""
        return sum(run.state in ("success", "failed") for run in self.runs) == RUNS


def run_job(platform: DemoPlatform, console: Console) -> History:
    """Run the job and return what happened; also when it got stuck, or a process died.

    Raises:
        LocalError: the platform does not come up.
    """
    platform.ask(_make_pool)
    _wait_until_up(platform)
    console.print(f"{', '.join(platform.supervisor.pids())} are up; {DAG_ID} catches up on January 2013.")
    platform.ask(lambda c: set_paused(c, DAG_ID, paused=False, actor=ACTOR))
    history = History()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("tasks", total=RUNS * TASKS_OF_A_RUN)
        _follow(platform, history, lambda: progress.update(bar, completed=history.succeeded), console)
    return history


def _make_pool(connection: Connection) -> None:
    what = "Loads into the table of departures."
    set_pool(connection, POOL, POOL_SLOTS, description=what, include_deferred=None, actor=ACTOR)


def _wait_until_up(platform: DemoPlatform) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while missing := platform.ask(_missing):
        platform.wait(LOOK_S)
        if platform.ended or time.monotonic() > give_up:
            why = "; ".join(map(str, platform.ended)) or f"not there after {PATIENCE_S:.0f} s: {', '.join(missing)}"
            broken = [f"{error.filename}: {error.stack_trace}" for error in platform.ask(_import_errors)]
            raise LocalError("The platform of the demo did not come up. " + ". ".join([why, *broken]))


def _missing(connection: Connection) -> list[str]:
    alive = [row.name for row in list_schedulers(connection, 100).rows if row.state == "alive"]
    alive += [row.name for row in list_workers(connection, 100).rows if row.state == "alive"]
    alive += [row.dag_id for row in list_dags(connection, 100).rows]
    return [name for name in (*SCHEDULERS, *WORKERS, DAG_ID) if name not in alive]


def _import_errors(connection: Connection) -> list[ImportErrorRow]:
    return list_import_errors(connection, 10).rows


def _follow(platform: DemoPlatform, history: History, show: Callable[[], None], console: Console) -> None:
    moved, last_move = -1, time.monotonic()
    while not history.is_over and not history.deaths and time.monotonic() - last_move < PATIENCE_S:
        platform.wait(LOOK_S)
        _look(platform, history)
        show()
        if history.succeeded != moved:
            moved, last_move = history.succeeded, time.monotonic()
        if history.kill is None and history.succeeded >= KILL_AFTER:
            history.kill = _kill_the_busier(platform, history.attempts)
            console.print(f"{history.kill.ended} after {history.succeeded} tasks.")


def _look(platform: DemoPlatform, history: History) -> None:
    history.runs = platform.ask(lambda c: list_runs(c, 2 * RUNS, dag_id=DAG_ID).rows)
    history.attempts = platform.ask(lambda c: list_past_attempts(c, DAG_ID))
    history.deaths = [ended for ended in platform.ended if history.kill is None or ended != history.kill.ended]


def _kill_the_busier(platform: DemoPlatform, attempts: list[PastAttempt]) -> Kill:
    queued = Counter(attempt.scheduler for attempt in attempts)
    victim = max(SCHEDULERS, key=lambda name: queued[name])
    at = platform.ask(read_clock)
    return Kill(platform.kill(victim), at)
