"""`turnout scheduler`."""

from typing import Annotated

import typer

from turnout.cli.serving import default_name, serve
from turnout.config.credentials import hide_credentials
from turnout.config.logging import configure_logging
from turnout.config.settings import load_settings
from turnout.executor.publisher import CeleryBroker
from turnout.scheduler.loop import Scheduler


def scheduler(
    name: Annotated[str | None, typer.Option("-n", "--name", help="Name of this scheduler.")] = None,
) -> None:
    """Run a scheduler, until SIGTERM or Ctrl-C; start as many as you like, on as many machines."""
    settings = load_settings()
    hide_credentials()
    name = name or default_name("scheduler")
    configure_logging(settings.log, process="scheduler", scheduler=name)
    broker = CeleryBroker(settings)
    try:
        serve(Scheduler(settings, broker, name))
    finally:
        broker.close()
