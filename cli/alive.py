"""`turnout alive`: the health check of a process."""

from typing import Annotated

import typer

from turnout.cli.database import in_database
from turnout.cli.errors import NotAliveError
from turnout.cli.output import say
from turnout.metadata.listings.processes import is_alive


def alive(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a scheduler, a worker or a DAG processor.")],
) -> None:
    """Check that the process of a name holds its lease, as health checks do. Exits with 1 when not."""
    if not in_database(lambda connection: is_alive(connection, name)):
        raise NotAliveError(f"No scheduler, worker or DAG processor named {name} holds a lease: it has died, or hangs.")
    say(f"{name} is alive.")
