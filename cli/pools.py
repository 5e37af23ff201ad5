"""`turnout pools`."""

from typing import Annotated

import typer

from turnout.cli.commands import command_group
from turnout.cli.database import actor, in_database
from turnout.cli.options import LIMIT, LimitOption, Output, OutputOption
from turnout.cli.output import say, show_page
from turnout.metadata.pools import delete_pool, list_pools, set_pool

app = command_group()

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the pool.")]

_COLUMNS = ("name", "slots", "occupied_slots", "running_slots", "queued_slots", "scheduled_slots", "open_slots")


@app.command("list")
def list_(limit: LimitOption = LIMIT, output: OutputOption = Output.TABLE) -> None:
    """List the pools, and how their slots are used."""
    page = in_database(lambda connection: list_pools(connection, limit))
    show_page(page, (*_COLUMNS, "description"), output, empty="No pools.")


@app.command("set")
def set_(
    name: NameArgument,
    slots: Annotated[int, typer.Argument(metavar="SLOTS", min=0, help="Number of slots.")],
    *,
    description: Annotated[str | None, typer.Option("--description", help="What it is for.")] = None,
    include_deferred: Annotated[
        bool | None, typer.Option("--include-deferred/--exclude-deferred", help="Whether deferred tasks take slots.")
    ] = None,
) -> None:
    """Make a pool, or change it."""
    is_new = in_database(
        lambda connection: set_pool(
            connection,
            name,
            slots,
            description=description,
            include_deferred=include_deferred,
            actor=actor(),
        )
    )
    say(f"Pool {name} {'made' if is_new else 'changed'}: {slots} slots.")


@app.command()
def delete(name: NameArgument) -> None:
    """Delete a pool that no DAG and no unfinished task needs."""
    in_database(lambda connection: delete_pool(connection, name, actor=actor()))
    say(f"Pool {name} deleted.")
