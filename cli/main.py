"""The `turnout` command."""

import io
import sys

from turnout.cli.commands import LazyCommand, LazyGroup
from turnout.config.errors import TurnoutError

#: Name, where it lives, and what it is for, in the order of the help.
COMMANDS = (
    ("up", "turnout.cli.local.up:up", "Run everything on this machine until Ctrl-C."),
    ("demo", "turnout.cli.local.demo:demo", "Run the main job once on a throwaway home, and judge it."),
    ("scheduler", "turnout.cli.scheduler:scheduler", "Run a scheduler."),
    ("worker", "turnout.cli.worker:worker", "Run tasks: a Celery worker."),
    ("dag-processor", "turnout.cli.dag_processor:dag_processor", "Parse DAG files and store what they declare."),
    ("flower", "turnout.cli.flower:flower", "Watch the Celery workers in Flower's web pages."),
    ("dags", "turnout.cli.dags:app", "List, show, pause, trigger, test, preview and delete DAGs."),
    ("runs", "turnout.cli.runs:app", "List, explain, clear, mark, cancel and delete DAG runs."),
    ("tasks", "turnout.cli.tasks:app", "List, explain, clear, mark, cancel tasks; logs and XComs."),
    ("pools", "turnout.cli.pools:app", "List, set and delete pools."),
    ("queues", "turnout.cli.queues:app", "List, pause and unpause queues: what waits there."),
    ("workers", "turnout.cli.workers:app", "List, drain and undrain workers."),
    ("callbacks", "turnout.cli.callbacks:app", "List callbacks, and print what they said."),
    ("schedulers", "turnout.cli.schedulers:app", "List schedulers."),
    ("alive", "turnout.cli.alive:alive", "Check that a process holds its lease: for health checks."),
    ("db", "turnout.cli.db:app", "Create, upgrade and check the metadata database."),
    ("config", "turnout.cli.config:app", "Show and check the settings."),
    ("version", "turnout.cli.version:version", "Print the version of Turnout."),
)


def root() -> LazyGroup:
    """Build the command line."""
    commands = [LazyCommand(name, target, summary) for name, target, summary in COMMANDS]
    return LazyGroup("turnout", "Run data pipelines: DAGs in Python, several schedulers, Celery workers.", commands)


def main() -> None:
    """Run the command line: exit with 0 when it is done, 1 when it failed, 2 when it was called wrongly."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What a task prints may hold letters that the terminal lacks, or halves of surrogate pairs.
            stream.reconfigure(errors="backslashreplace")
    try:
        root().main(prog_name="turnout")
    except TurnoutError as error:
        print("Error:", " ".join(str(error).split()), file=sys.stderr)  # noqa: T201  the one place that says it
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
