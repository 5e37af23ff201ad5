"""`turnout worker`."""

from typing import Annotated

import typer

from turnout.cli.serving import default_name
from turnout.config.credentials import hide_credentials
from turnout.config.logging import configure_logging
from turnout.config.settings import load_settings
from turnout.tasks.callbacks import CALLBACK_QUEUE


def worker(
    queues: Annotated[
        str, typer.Option("-q", "--queues", help="Queue names to serve, separated by commas.")
    ] = "default",
    pools: Annotated[
        str | None, typer.Option("-p", "--pools", help="Pools to serve; all, also those made later, when not given.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("-c", "--concurrency", min=1, help="Attempts to run at the same time.")
    ] = None,
    autoscale: Annotated[
        str | None,
        typer.Option(
            metavar="MAX,MIN", help="Let children come with the work and go without it, instead of --concurrency."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("-n", "--name", help="Name of this worker.")] = None,
    *,
    callbacks: Annotated[
        bool, typer.Option(help="Also run callbacks, which take no slots. A worker only for them: -q callbacks.")
    ] = True,
) -> None:
    """Run tasks: a Celery worker."""
    from turnout.executor.worker import Worker, WorkerOptions  # noqa: PLC0415  Celery loads slowly

    settings = load_settings()
    most, least = (concurrency, None) if autoscale is None else _bounds(autoscale, concurrency)
    served = _names(queues)
    if not callbacks and CALLBACK_QUEUE in served:
        raise typer.BadParameter("give either -q callbacks or --no-callbacks")
    options = WorkerOptions(
        name=name or default_name("worker"),
        queues=served,
        pools=None if pools is None else _names(pools),
        concurrency=most or settings.worker.concurrency,
        least_children=least,
        runs_callbacks=callbacks,
    )
    hide_credentials()
    configure_logging(settings.log, process="worker", worker=options.name)
    raise typer.Exit(Worker(settings, options).run())


def _names(given: str) -> list[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter("give at least one name")
    return list(dict.fromkeys(names))


def _bounds(given: str, concurrency: int | None) -> tuple[int, int]:
    """Read `MAX,MIN`."""
    if concurrency is not None:
        raise typer.BadParameter("give either --autoscale or --concurrency")
    try:
        most, least = map(int, given.split(","))
    except ValueError:
        raise typer.BadParameter(f"--autoscale takes two numbers, such as 8,2; not {given!r}") from None
    if not 1 <= least <= most:
        raise typer.BadParameter(f"--autoscale takes the most children first, and at least one: not {given}")
    return most, least
