"""`turnout workers`."""

from typing import Annotated

import typer

from turnout.cli.commands import command_group
from turnout.cli.database import actor, in_database
from turnout.cli.options import LIMIT, AllProcessesOption, LimitOption, Output, OutputOption
from turnout.cli.output import say, show_page
from turnout.metadata.listings.processes import list_workers
from turnout.metadata.routing import set_drained

app = command_group()

_COLUMNS = (
    "name",
    "state",
    "hostname",
    "queues",
    "pools",
    "running",
    "slots",
    "load",
    "memory_mb",
    "latest_heartbeat",
    "closed_for",
)
_EMPTY = "No worker is alive. `turnout worker` starts one; --all shows those that ended within the last day."


@app.command("list")
def list_(
    *, is_all: AllProcessesOption = False, limit: LimitOption = LIMIT, output: OutputOption = Output.TABLE
) -> None:
    """List the workers that are alive. No pools: it serves all of them."""
    page = in_database(lambda connection: list_workers(connection, limit, is_all=is_all))
    show_page(page, _COLUMNS, output, empty=_EMPTY)


WorkerArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the worker.")]


@app.command()
def drain(name: WorkerArgument) -> None:
    """Let a worker take nothing new, until it is undrained, even if it is restarted; what it runs goes on."""
    changed = in_database(lambda c: set_drained(c, name, drained=True, actor=actor()))
    say(f"Worker {name} is drained: it takes nothing new." if changed else f"Worker {name} was drained already.")


@app.command()
def undrain(name: WorkerArgument) -> None:
    """Let a worker take work again."""
    changed = in_database(lambda c: set_drained(c, name, drained=False, actor=actor()))
    say(f"Worker {name} takes work again." if changed else f"Worker {name} was not drained.")
