"""`turnout dag-processor`."""

from typing import Annotated

import typer

from turnout.cli.serving import default_name, serve
from turnout.config.credentials import hide_credentials
from turnout.config.logging import configure_logging
from turnout.config.settings import load_settings
from turnout.scheduler.processor.service import DagProcessor


def dag_processor(
    name: Annotated[str | None, typer.Option("-n", "--name", help="Name of this DAG processor.")] = None,
) -> None:
    """Parse DAG files and store what they declare, until SIGTERM or Ctrl-C."""
    settings = load_settings()
    hide_credentials()
    configure_logging(settings.log, process="dag-processor")
    serve(DagProcessor(settings, name or default_name("dag-processor")))
