"""`turnout queues`."""

from dataclasses import replace
from typing import Annotated

import typer

from turnout.cli.commands import command_group
from turnout.cli.database import actor, in_database
from turnout.cli.options import Output, OutputOption
from turnout.cli.output import remark, say, show_page
from turnout.config.settings import load_settings
from turnout.executor.publisher import CeleryBroker
from turnout.metadata.listings.page import Page
from turnout.metadata.listings.queues import list_queues
from turnout.metadata.messages import BrokerUnavailableError
from turnout.metadata.routing import set_queue_paused

app = command_group()

_COLUMNS = (
    "celery_queue",
    "is_paused",
    "waiting",
    "queued",
    "running",
    "live_slots",
    "live_workers",
    "oldest_wait",
    "depth",
)


@app.command("list")
def list_(output: OutputOption = Output.TABLE) -> None:
    """List the queues that hold work, that a live worker serves, or that are paused.

    Waiting is in the database only, queued is published as well, depth is what the broker holds.
    """
    rows = in_database(list_queues)
    depths = _depths([row.celery_queue for row in rows if row.pool is not None])
    queues = [replace(row, depth=depths.get(row.celery_queue)) for row in rows]
    empty = "No queues: nothing waits or runs, and no worker is alive."
    show_page(Page(queues, is_cut=False), _COLUMNS, output, empty=empty)


QueueArgument = Annotated[str, typer.Argument(help="A queue name, as tasks ask for it: not that of a Celery queue.")]


@app.command()
def pause(queue: QueueArgument) -> None:
    """Queue nothing more of a queue name, in any pool, until it is unpaused; what is queued or runs goes on."""
    changed = in_database(lambda c: set_queue_paused(c, queue, paused=True, actor=actor()))
    say(f"Queue {queue} is paused." if changed else f"Queue {queue} was paused already.")


@app.command()
def unpause(queue: QueueArgument) -> None:
    """Let tasks of a queue name be queued again."""
    changed = in_database(lambda c: set_queue_paused(c, queue, paused=False, actor=actor()))
    say(f"Queue {queue} is unpaused." if changed else f"Queue {queue} was not paused.")


def _depths(queues: list[str]) -> dict[str, int]:
    broker = CeleryBroker(load_settings())
    try:
        return broker.depths(queues) if queues else {}
    except BrokerUnavailableError as error:
        remark(f"No depths: {error}")
        return {}
    finally:
        broker.close()
