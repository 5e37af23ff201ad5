"""The embedded PostgreSQL."""

import signal
import subprocess
from pathlib import Path

from turnout.cli.local.binaries import postgres_program
from turnout.cli.local.errors import ServerFailedError
from turnout.cli.local.server import HERE, EmbeddedServer, server_environment

#: What a laptop can spare; the default of 128 MB and the workers of replication serve larger machines.
SMALL = {
    "shared_buffers": "64MB",
    "maintenance_work_mem": "32MB",
    "max_wal_size": "512MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "io_method": "sync",
    "jit": "off",
}


class PostgresServer(EmbeddedServer):
    """PostgreSQL 18 with one database `turnout` of a user `turnout`, on a Unix socket only."""

    title = "PostgreSQL"
    program = "postgres"
    major = 18
    # Fast shutdown, then the immediate one, which the next start repairs from the log.
    stop_signals = ((signal.SIGINT, 30), (signal.SIGQUIT, 10))

    def command(self) -> list[str]:
        """Write the command line, with paths as seen from the data folder."""
        on = "on" if self.durable else "off"
        options = SMALL | {
            "listen_addresses": "",
            "unix_socket_directories": self.sockets_from_data,
            "unix_socket_permissions": "0700",
            "max_connections": "100",
            "fsync": on,
            "synchronous_commit": on,
            "full_page_writes": on,
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_checkpoints": "off",
            "cluster_name": "turnout",
        }
        program = str(postgres_program("postgres", self.owner))
        return [program, "-D", HERE, *(part for name, value in options.items() for part in ("-c", f"{name}={value}"))]

    def fill(self, folder: Path) -> None:
        """Make a database cluster with the database `turnout` in it."""
        initdb = [str(postgres_program("initdb", self.owner)), "-D", HERE, "--username=turnout", "--auth=trust"]
        # Sorting by code point, as built in since PostgreSQL 17, is the same on every machine.
        locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        sync = [] if self.durable else ["--no-sync"]
        self._run([*initdb, *locale, "--no-instructions", *sync], folder)
        single = [str(postgres_program("postgres", self.owner)), "--single", "-D", HERE, "postgres"]
        self._run(single, folder, b"CREATE DATABASE turnout;\n")

    def clear_stale(self) -> None:
        """Remove the pid file and the socket's lock file: the number in them may be somebody else's by now."""
        for stale in (self._pid_file, self.sockets / ".s.PGSQL.5432.lock"):
            stale.unlink(missing_ok=True)

    def is_ready(self) -> bool:
        """Tell whether the server says so in its pid file (the eighth line, as pg_ctl reads it)."""
        try:
            lines = self._pid_file.read_text().splitlines()
        except FileNotFoundError:
            return False
        return lines[0:1] == [str(self.pid)] and [line.strip() for line in lines[7:8]] == ["ready"]

    @property
    def _pid_file(self) -> Path:
        return self.data.path / "postmaster.pid"

    def _run(self, command: list[str], folder: Path, text: bytes = b"") -> None:
        done = subprocess.run(
            self.as_owner(command), cwd=folder, env=server_environment(), input=text, capture_output=True, check=False
        )
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
            faults = [line for line in said if "error:" in line or "FATAL" in line] or said
            raise ServerFailedError(f"PostgreSQL cannot make its data folder {self.data.path}. It said: {faults[0]}")
