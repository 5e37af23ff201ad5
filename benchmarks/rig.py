"""The rig of every benchmark: embedded servers with durable settings, real processes, and a report.

A task counts when its outcome is committed, and every time is one that the database wrote down.
"""

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from turnout.cli.local.servers import EmbeddedServers
from turnout.config.settings import Settings, load_settings
from turnout.metadata import triggers
from turnout.metadata.engine import open_engine, transact
from turnout.metadata.migrate import migrate

DAGS = Path(__file__).parent / "dags"
VERSIONS = ("turnout", "celery", "kombu", "redis", "sqlalchemy", "psycopg")
STARTUP_S = 60.0
RUN_S = 600.0


class Rig:
    """A platform on a throwaway home.

    Args:
        schedulers: how many schedulers.
        slots: the concurrency of the one worker.
    """

    def __init__(self, *, schedulers: int = 1, slots: int = 4) -> None:
        self.options = {"schedulers": schedulers, "workers": 1, "slots": slots}
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            home = Path(tempfile.mkdtemp(prefix="turnout-bench-"))
            undo.callback(shutil.rmtree, home, ignore_errors=True)
            self.servers = undo.enter_context(EmbeddedServers(home))
            self.environ = {name: value for name, value in os.environ.items() if not name.startswith("TURNOUT_")} | {
                "TURNOUT_HOME": str(home),
                "TURNOUT_DAGS_FOLDER": str(DAGS),
                "TURNOUT_LOG__LEVEL": "warning",
            }
            self.settings: Settings = load_settings(self.environ)
            self.engine = open_engine(self.settings.database.get_secret_value(), name="benchmark", connections=2)
            undo.callback(self.engine.dispose)
            migrate(self.engine)
            for number in range(self.options["schedulers"]):
                undo.callback(stop, self._start("scheduler", "--name", f"scheduler-{number}"))
            undo.callback(stop, self._start("worker", "--concurrency", str(self.options["slots"])))
            undo.callback(stop, self._start("dag-processor"))
            self._exit = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exit.close()

    def run(self, dag_id: str) -> int:
        """Run a DAG once; return the id of the run.

        Raises:
            RuntimeError: it did not succeed, or not in time.
        """
        wait_for(lambda: self.scalar("SELECT 1 FROM dag WHERE dag_id = :dag", dag=dag_id), STARTUP_S)
        wait_for(lambda: self.scalar("SELECT 1 FROM process WHERE kind = 'worker' AND state = 'alive'"), STARTUP_S)
        wanted = triggers.Trigger(dag_id)
        name = transact(self.engine, lambda c: triggers.trigger(c, wanted, actor="benchmark")).run.dag_run_id
        query = "SELECT id FROM dag_run WHERE run_id = :run AND state = 'success'"
        return int(wait_for(lambda: self.scalar(query, run=name), RUN_S))

    def rows(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        """Read rows."""
        with self.engine.begin() as connection:
            return [dict(row) for row in connection.execute(text(statement), values).mappings()]

    def scalar(self, statement: str, **values: Any) -> Any:
        """Read one value."""
        with self.engine.begin() as connection:
            return connection.execute(text(statement), values).scalar()

    def _start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-m", "turnout.cli.main", *arguments], env=self.environ)


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a process that we started."""
    process.terminate()
    process.wait()


def wait_for(check: Callable[[], Any], timeout_s: float) -> Any:
    """Return the first true result of a check.

    Raises:
        RuntimeError: there was none in time.
    """
    pause, end = threading.Event(), time.monotonic() + timeout_s
    while not (result := check()):
        if time.monotonic() > end:
            raise RuntimeError(f"Nothing after {timeout_s:g} s.")
        pause.wait(0.05)
    return result


def percentiles(values: list[float]) -> dict[str, float]:
    """Compute p50, p95 and p99 by the nearest rank."""
    ordered = sorted(values)
    return {
        f"p{share}": round(ordered[min(len(ordered) - 1, len(ordered) * share // 100)], 2) for share in (50, 95, 99)
    }


def report(title: str, options: dict[str, Any], results: dict[str, Any]) -> None:
    """Print a table for people, and one line of JSON for programs."""
    table = Table("measure", "value", title=title, title_justify="left")
    for name, value in results.items():
        table.add_row(name, str(value))
    Console().print(table)
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    versions = {name: importlib.metadata.version(name) for name in VERSIONS}
    print(json.dumps({"title": title, **machine, "options": options, "versions": versions, "results": results}))  # noqa: T201
