"""`turnout flower`."""

from typing import Annotated

import typer

from turnout.config.credentials import hide_credentials
from turnout.config.logging import configure_logging
from turnout.config.settings import load_settings


def flower(
    address: Annotated[str, typer.Option("--address", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen on.")] = 5555,
) -> None:
    """Watch the Celery workers in Flower's web pages, until SIGTERM or Ctrl-C.

    Every FLOWER_* variable is Flower's own. FLOWER_BASIC_AUTH=user:password asks for a password and opens the HTTP API;
    an address that other machines can reach demands it. The pages change nothing unless FLOWER_READ_ONLY=false.
    """
    from turnout.executor.flower import run_flower  # noqa: PLC0415  Celery loads slowly

    settings = load_settings()
    hide_credentials()
    configure_logging(settings.log, process="flower")
    run_flower(settings, address, port)
