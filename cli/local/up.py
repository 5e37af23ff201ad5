"""`turnout up`: the whole platform on one machine."""

from typing import Annotated

import typer

from turnout.cli.local.machine import run_machine
from turnout.config.credentials import hide_credentials
from turnout.config.settings import load_settings


def up(
    workers: Annotated[int, typer.Option("--workers", min=0, help="Workers to run.")] = 1,
    schedulers: Annotated[int, typer.Option("--schedulers", min=1, help="Schedulers to run.")] = 2,
) -> None:
    """Run everything on this machine, with embedded servers, until Ctrl-C.

    With TURNOUT_DATABASE_URL or TURNOUT_BROKER_URL set, no server of that kind is started.
    """
    settings = load_settings()
    hide_credentials()
    run_machine(settings, workers=workers, schedulers=schedulers)
