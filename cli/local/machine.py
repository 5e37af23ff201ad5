"""Everything on one machine: embedded servers, schedulers, workers and the DAG processor, until a person stops it."""

import contextlib
import importlib.metadata
import os
import sys

from turnout.cli.local.child import ProcessSpec, turnout_command
from turnout.cli.local.home import make_folder
from turnout.cli.local.printer import Printer
from turnout.cli.local.servers import EmbeddedServers
from turnout.cli.local.signals import StopSignals
from turnout.cli.local.supervisor import Supervisor
from turnout.cli.local.tending import Tending
from turnout.config.settings import Settings
from turnout.config.urls import without_password
from turnout.metadata.engine import open_engine
from turnout.metadata.migrate import migrate

#: How often the embedded servers are looked after; everything else wakes the loop by itself.
TEND_INTERVAL_S = 1.0


def run_machine(settings: Settings, *, workers: int, schedulers: int) -> None:
    """Start everything, print what it prints, and stop it again on Ctrl-C or SIGTERM.

    Raises:
        TurnoutError: something cannot start; what was started is stopped again.
    """
    specs = machine_specs(workers, schedulers)
    printer = _printer(settings, specs)
    with StopSignals() as signals, contextlib.suppress(KeyboardInterrupt):
        _run(settings, specs, printer, signals)
    printer.say("stopped")


def machine_specs(workers: int, schedulers: int) -> list[ProcessSpec]:
    """List the processes of one machine."""
    names = [f"scheduler-{number}" for number in range(1, schedulers + 1)]
    specs = [ProcessSpec(name, turnout_command("scheduler", "--name", name)) for name in names]
    names = [f"worker-{number}" for number in range(1, workers + 1)]
    specs += [ProcessSpec(name, turnout_command("worker", "--name", name)) for name in names]
    return [*specs, ProcessSpec("dag-processor", turnout_command("dag-processor", "--name", "dag-processor"))]


def child_environment(settings: Settings, *, colour: bool = False) -> dict[str, str]:
    """Make the environment in which every process uses these settings' home and servers, and logs for a person."""
    return {
        **os.environ,
        "TURNOUT_HOME": str(settings.home),
        "TURNOUT_DATABASE_URL": settings.database.get_secret_value(),
        "TURNOUT_BROKER_URL": settings.broker.get_secret_value(),
        **({"TURNOUT_LOGS_URL": settings.logs_url.get_secret_value()} if settings.logs_url is not None else {}),
        "TURNOUT_LOG__FORMAT": "text" if settings.log.format == "auto" else settings.log.format,
        **({"FORCE_COLOR": "1"} if colour else {}),
    }


def _run(settings: Settings, specs: list[ProcessSpec], printer: Printer, signals: StopSignals) -> None:
    with (
        EmbeddedServers(
            settings.home, postgres=settings.database_url is None, valkey=settings.broker_url is None
        ) as servers,
        Supervisor(child_environment(settings, colour=_colour()), printer.write, printer.say) as supervisor,
    ):
        make_folder(settings.dags_path)
        make_folder(settings.logs_path)
        _migrate(settings)
        printer.banner(_banner(settings))
        signals.calm()
        supervisor.wake_on(signals.fileno())
        for spec in specs:
            supervisor.start(spec)
        tending = Tending(servers.running, printer.say)
        while not signals.take() and not printer.is_closed:
            supervisor.poll(TEND_INTERVAL_S)
            tending.poll()
        printer.say("stopping (Ctrl-C again: do not wait for running tasks)")
        supervisor.stop(hurry=signals.take)


def _migrate(settings: Settings) -> None:
    engine = open_engine(settings.database.get_secret_value(), name="up")
    try:
        migrate(engine)
    finally:
        engine.dispose()


def _printer(settings: Settings, specs: list[ProcessSpec]) -> Printer:
    return Printer([spec.name for spec in specs], as_json=settings.log.format == "json", colour=_colour())


def _colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _banner(settings: Settings) -> list[str]:
    in_home = f"embedded, in {settings.home / 'servers'}"
    database, broker = settings.database_url, settings.broker_url
    hint = "" if any(settings.dags_path.iterdir()) else " (empty: put DAG files here)"
    home = f"TURNOUT_HOME={settings.home} " if "TURNOUT_HOME" in os.environ else ""
    return [
        f"Turnout {importlib.metadata.version('turnout')}",
        f"  Home      {settings.home}",
        f"  DAGs      {settings.dags_path}{hint}",
        f"  Database  PostgreSQL, {without_password(database.get_secret_value()) if database else in_home}",
        f"  Broker    {without_password(broker.get_secret_value()) if broker else f'Valkey, {in_home}'}",
        f"  Next      `{home}turnout dags list` in another terminal; Ctrl-C here stops everything",
    ]
