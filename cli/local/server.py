"""One embedded server: data folder, start, readiness, stop."""

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import BinaryIO

from turnout.cli.local.data import DataFolder
from turnout.cli.local.errors import HomeUnusableError, ServerFailedError
from turnout.cli.local.launch import launch_command
from turnout.cli.local.owner import Owner
from turnout.config.embedded import embedded_folder, servers_folder

#: The data folder as its own processes see it, whatever the folders above it allow them.
HERE = "/proc/self/cwd"
#: Replaying the log after a crash is the longest of starts.
READY_WITHIN_S = 60
#: The log of earlier starts makes room when it is longer than this.
LOG_BYTES = 4_000_000


class EmbeddedServer(ABC):
    """A server that this process starts, and stops by the pid that it started.

    The server runs in its data folder and names every path from there: its user need not be allowed to enter the
    folders above, which are often private to root.

    Args:
        home: the home folder, held by this process.
        owner: the user who runs it.
        durable: whether a committed write survives a crash of the machine; only throwaway servers do without.
    """

    #: Its name for people, and that of its program.
    title: str
    program: str
    major: int
    #: Signals to stop it, gentlest first, each with the seconds that it is given.
    stop_signals: tuple[tuple[signal.Signals, float], ...]

    def __init__(self, home: Path, owner: Owner, *, durable: bool = True) -> None:
        self.owner = owner
        self.durable = durable
        self.sockets = embedded_folder(home)
        self.data = DataFolder(servers_folder(home) / self.title.lower(), self.title, self.program, self.major, owner)
        self.log = home / f"{self.title.lower()}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Write the command line, with paths as seen from the data folder."""

    @abstractmethod
    def fill(self, folder: Path) -> None:
        """Write the server's first data into an empty folder."""

    @abstractmethod
    def clear_stale(self) -> None:
        """Remove what a killed server left that would keep the next one from starting."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Tell whether the server answers."""

    @property
    def pid(self) -> int | None:
        """The process that runs, if one does."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def sockets_from_data(self) -> str:
        """The folder of the sockets as seen from the data folder."""
        return ".." if self.sockets == self.data.path.parent else str(self.sockets)

    def start(self) -> None:
        """Start the server, unless it runs, and return when it answers.

        Raises:
            LocalError: it cannot start; the message says why.
        """
        if self.pid is not None:
            return
        self.data.prepare(self.fill)
        self.clear_stale()
        with self._open_log() as log:
            self._process = subprocess.Popen(
                self.as_owner(self.command()),
                cwd=self.data.path,
                env=server_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server that `start` started, if it still runs."""
        process, self._process = self._process, None
        if process is None:
            return
        for stop_signal, patience_s in self.stop_signals:
            # Popen looks first whether the process has ended: the number is never somebody else's.
            process.send_signal(stop_signal)
            try:
                process.wait(patience_s)
            except subprocess.TimeoutExpired:
                continue
            return
        process.kill()
        process.wait()

    def as_owner(self, command: list[str]) -> list[str]:
        """Have a command run by the owner, and stopped gently when this process ends."""
        return launch_command(command, self.stop_signals[0][0], self.owner.uid, self.owner.gid)

    def _open_log(self) -> BinaryIO:
        try:
            if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
                self.log.rename(self.log.with_suffix(".log.1"))
            return self.log.open("ab")
        except OSError as error:
            raise HomeUnusableError(f"Cannot write {self.log}: {error.strerror}.") from None

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        give_up = time.monotonic() + READY_WITHIN_S
        while not self.is_ready():
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                if time.monotonic() < give_up:
                    continue
                raise ServerFailedError(
                    f"{self.title} did not answer within {READY_WITHIN_S} s. Its log is {self.log}."
                ) from None
            raise ServerFailedError(f"{self.title} did not start: {self._last_words()} (its log is {self.log}).")

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        telling = [line for line in lines[-20:] if "FATAL" in line or "error" in line.lower()] or lines[-1:]
        said = telling[-1].strip() if telling else "it said nothing"
        return said.rpartition("FATAL:")[2].strip().replace(HERE, str(self.data.path))


def server_environment() -> dict[str, str]:
    """Make the environment of the servers' programs."""
    # Both refuse to start in a locale that the machine names but does not have.
    return {"LC_ALL": "C", "PATH": os.defpath}
