"""`turnout flower`."""

import os
import sys
from typing import Annotated

import typer

from turnout.config.settings import load_settings


def flower(
    address: Annotated[str, typer.Option("--address", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen on.")] = 5555,
) -> None:
    """Watch the Celery workers in Flower's web pages, until SIGTERM or Ctrl-C.

    It has no password: whoever reaches the address sees everything and may stop workers.
    """
    load_settings()  # a wrong setting is one line here, and a traceback in there
    command = [sys.executable, "-P", "-m", "celery", "--app", "turnout.executor.flower_app", "flower"]
    os.execv(sys.executable, [*command, f"--address={address}", f"--port={port}"])  # noqa: S606  no shell
