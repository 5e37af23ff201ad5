"""Waiting for the end of a run."""

import time

import typer

from turnout.cli.database import open_database
from turnout.cli.options import Output
from turnout.cli.output import remark
from turnout.cli.run_record import show_run_record
from turnout.config.settings import load_settings
from turnout.metadata.engine import Engine, transact
from turnout.metadata.listings.runs import RunRow, show_run
from turnout.metadata.states import RUN_FINISHED, RunState

#: A short run is answered quickly, and a long one asks once in two seconds.
FIRST_POLL_S = 0.1
LONGEST_POLL_S = 2.0
TIMED_OUT = 3


def wait_for_run(dag_id: str, run_id: str, *, timeout_s: float | None, output: Output) -> None:
    """Wait until a run has ended, print it, and exit with 0 (success), 1 (failed) or 3 (not ended in time).

    Raises:
        NotFoundError: there is no such DAG or run.
        typer.Exit: always, unless the run was successful.
    """
    with open_database(load_settings()) as engine:
        run = _wait(engine, dag_id, run_id, timeout_s)
    show_run_record(run, output)
    if run.state not in RUN_FINISHED:
        remark(f"Run {run_id} of DAG {dag_id} is still {run.state} after {timeout_s:g} s.")
        raise typer.Exit(TIMED_OUT)
    if run.state == RunState.FAILED:
        remark(f"Run {run_id} of DAG {dag_id} failed: see `turnout tasks list {dag_id} {run_id} --state failed`.")
        raise typer.Exit(1)


def _wait(engine: Engine, dag_id: str, run_id: str, timeout_s: float | None) -> RunRow:
    give_up = None if timeout_s is None else time.monotonic() + timeout_s
    pause_s = FIRST_POLL_S
    while True:
        run = transact(engine, lambda connection: show_run(connection, dag_id, run_id))
        left_s = LONGEST_POLL_S if give_up is None else give_up - time.monotonic()
        if run.state in RUN_FINISHED or left_s <= 0:
            return run
        time.sleep(min(pause_s, left_s))
        pause_s = min(pause_s * 1.5, LONGEST_POLL_S)
