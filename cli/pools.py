"""`turnout pools`."""

import re
from typing import Annotated

import typer

from turnout.cli.commands import command_group
from turnout.cli.database import actor, in_database
from turnout.cli.options import LIMIT, LimitOption, Output, OutputOption
from turnout.cli.output import say, show_page
from turnout.metadata.listings.spoken import counted
from turnout.metadata.pools import KEEP_RATE, Rate, delete_pool, list_pools, set_pool

app = command_group()

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the pool.")]

_COLUMNS = ("name", "slots", "occupied_slots", "running_slots", "queued_slots", "scheduled_slots", "open_slots")
_RATE_COLUMNS = ("rate_starts", "rate_period_s")
_RATE = re.compile(r"(\d{1,9})/(\d{1,9})?([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_rate(value: str) -> Rate | None:
    """Read the rate of a pool from the command line.

    Raises:
        typer.BadParameter: it is none.
    """
    if value == "none":
        return None
    match = _RATE.fullmatch(value)
    if match is None or not int(match[1]) or match[2] == "0":
        message = f"write starts per period, such as 60/m, 5/s or 100/12h, or none: not {value}."
        raise typer.BadParameter(message, param_hint="'--rate'")
    return Rate(int(match[1]), int(match[2] or 1) * _SECONDS[match[3]])


@app.command("list")
def list_(limit: LimitOption = LIMIT, output: OutputOption = Output.TABLE) -> None:
    """List the pools, and how their slots are used."""
    page = in_database(lambda connection: list_pools(connection, limit))
    show_page(page, (*_COLUMNS, *_RATE_COLUMNS, "description"), output, empty="No pools.")


@app.command("set")
def set_(
    name: NameArgument,
    slots: Annotated[int, typer.Argument(metavar="SLOTS", min=0, help="Number of slots.")],
    *,
    description: Annotated[str | None, typer.Option("--description", help="What it is for.")] = None,
    include_deferred: Annotated[
        bool | None, typer.Option("--include-deferred/--exclude-deferred", help="Whether deferred tasks take slots.")
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="STARTS/PERIOD", help="Most starts in a period: 60/m, 5/s, 100/h; or none."),
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
            rate=KEEP_RATE if rate is None else parse_rate(rate),
            actor=actor(),
        )
    )
    say(f"Pool {name} {'made' if is_new else 'changed'}: {counted(slots, 'slot')}.")


@app.command()
def delete(name: NameArgument) -> None:
    """Delete a pool that no DAG and no unfinished task needs."""
    in_database(lambda connection: delete_pool(connection, name, actor=actor()))
    say(f"Pool {name} deleted.")
