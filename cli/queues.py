"""`turnout queues`."""

from dataclasses import replace

from turnout.cli.commands import command_group
from turnout.cli.database import in_database
from turnout.cli.options import Output, OutputOption
from turnout.cli.output import remark, show_page
from turnout.config.settings import load_settings
from turnout.executor.publisher import CeleryBroker
from turnout.metadata.listings.page import Page
from turnout.metadata.listings.queues import list_queues
from turnout.metadata.messages import BrokerUnavailableError

app = command_group()

_COLUMNS = ("celery_queue", "waiting", "queued", "running", "live_slots", "live_workers", "depth")


@app.command("list")
def list_(output: OutputOption = Output.TABLE) -> None:
    """List the queues that hold work or that a live worker serves.

    Waiting is in the database only, queued is published as well, depth is what the broker holds.
    """
    rows = in_database(list_queues)
    depths = _depths([row.celery_queue for row in rows])
    queues = [replace(row, depth=depths.get(row.celery_queue)) for row in rows]
    empty = "No queues: nothing waits or runs, and no worker is alive."
    show_page(Page(queues, is_cut=False), _COLUMNS, output, empty=empty)


def _depths(queues: list[str]) -> dict[str, int]:
    broker = CeleryBroker(load_settings())
    try:
        return broker.depths(queues) if queues else {}
    except BrokerUnavailableError as error:
        remark(f"No depths: {error}")
        return {}
    finally:
        broker.close()
