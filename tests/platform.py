"""The platform of a test: real schedulers and workers as processes, on the test's own database and broker."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

from tests import rows
from turnout.config.settings import Settings
from turnout.metadata import pools, triggers
from turnout.metadata.engine import transact

#: Short leases, so that a test of a failure takes seconds.
ENVIRON = {
    "TURNOUT_SCHEDULER__LEASE_S": "2",
    "TURNOUT_SCHEDULER__REPAIR_INTERVAL_S": "0.5",
    "TURNOUT_SCHEDULER__MESSAGE_PATIENCE_S": "2",
    "TURNOUT_WORKER__LEASE_S": "3",
    "TURNOUT_WORKER__KILL_GRACE_S": "1",
    "TURNOUT_LOG__FORMAT": "json",
}


class Platform:
    """Starts processes, triggers runs, and looks at what became of them."""

    def __init__(self, engine: Engine, settings: Settings, folder: Path) -> None:
        self.engine = engine
        self.settings = settings
        self.folder = folder
        self.ledger_path = folder / "ledger"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def declare(self, *files: str, **sizes: int) -> None:
        """Insert the DAGs of some files, and pools of some sizes."""
        with self.engine.begin() as connection:
            for file in files:
                rows.insert_dags(connection, file)
            for name, slots in sizes.items():
                pools.set_pool(connection, name, slots, description=None, include_deferred=None, actor="test")

    def start(self, kind: str, name: str, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start a `turnout scheduler` or a `turnout worker`."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "turnout.cli.main", kind, "--name", name, *arguments],
                env=self._environ() | variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self.processes[name]

    def pretend_worker(self) -> None:
        """Register a worker that takes nothing, so that schedulers publish and the messages stay at the broker."""
        with self.engine.begin() as connection:
            connection.exec_driver_sql("""
                INSERT INTO process (kind, name, hostname, pid, version, lease_expires_at, queues, slots)
                VALUES ('worker', 'only-a-row', 'nowhere', 0, '0', now() + interval '1 hour', '{default}', 2)
            """)

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the main process of one of ours; after SIGKILL, wait until it is gone."""
        process = self.processes[name]
        process.send_signal(number)
        if number is signal.SIGKILL:
            process.wait()

    def stop_all(self) -> None:
        """End every process."""
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
        for process in self.processes.values():
            process.wait()

    def said(self, name: str, event: str) -> list[dict[str, Any]]:
        """Read the log lines of a process that tell of an event."""
        lines = (self.folder / f"{name}.log").read_text().splitlines()
        entries = [json.loads(line) for line in lines if line.startswith("{")]
        return [entry for entry in entries if entry.get("event") == event]

    def trigger(self, dag_id: str, script: Mapping[str, Sequence[str]] | None = None, **conf: Any) -> str:
        """Trigger a run whose tasks do as the script says; return its run id."""
        whole = {"ledger": str(self.ledger_path), "script": dict(script or {}), **conf}
        wanted = triggers.Trigger(dag_id, conf=whole)
        return transact(self.engine, lambda c: triggers.trigger(c, wanted, actor="test")).run.dag_run_id

    def run_state(self, run_id: str) -> str:
        """Read the state of a run."""
        return str(self.scalar("SELECT state FROM dag_run WHERE run_id = :run", run=run_id))

    def states(self, run_id: str) -> Counter[str]:
        """Count the task instances of a run by state."""
        found = self.rows(
            "SELECT t.state FROM task_instance t JOIN dag_run r ON r.id = t.dag_run_id WHERE r.run_id = :run",
            run=run_id,
        )
        return Counter(row["state"] for row in found)

    def ledger(self, event: str = "start") -> list[dict[str, Any]]:
        """Read what the tasks themselves wrote."""
        written = self.ledger_path.read_text() if self.ledger_path.exists() else ""
        lines = written[: written.rfind("\n") + 1].splitlines()  # the last one may be half there
        return [entry for entry in map(json.loads, lines) if entry["event"] == event]

    def rows(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        """Read rows."""
        with self.engine.begin() as connection:
            return [dict(row) for row in connection.execute(text(statement), values).mappings()]

    def scalar(self, statement: str, **values: Any) -> Any:
        """Read one value."""
        with self.engine.begin() as connection:
            return connection.execute(text(statement), values).scalar()

    def most_slots_used(self, pool: str) -> int:
        """Find the most slots of a pool that were in use at any instant, by the database's own times.

        A slot is in use from the queueing of an attempt to its end; each time is taken before its own commit, and the
        scheduler that gives the slot away again has seen that commit.
        """
        intervals = self.rows(
            """
            SELECT a.queued_at, a.ended_at, t.pool_slots FROM (
                SELECT id, queued_at, ended_at FROM task_instance WHERE attempt_id IS NOT NULL
                UNION ALL SELECT task_instance_id, queued_at, ended_at FROM task_attempt
            ) a JOIN task_instance t USING (id) WHERE t.pool = :pool
            """,
            pool=pool,
        )
        changes = [(row["queued_at"], 1, row["pool_slots"]) for row in intervals]
        changes += [(row["ended_at"], 0, -row["pool_slots"]) for row in intervals if row["ended_at"]]
        used = most = 0
        for _, _, slots in sorted(changes):
            used += slots
            most = max(most, used)
        return most

    def _environ(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("TURNOUT_")}
        return (
            own
            | ENVIRON
            | {
                "TURNOUT_HOME": str(self.settings.home),
                "TURNOUT_DATABASE_URL": self.settings.database.get_secret_value(),
                "TURNOUT_BROKER_URL": self.settings.broker.get_secret_value(),
                "TURNOUT_DAGS_FOLDER": str(rows.DAGS),
            }
        )
