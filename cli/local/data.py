"""The data folder of one server: made by us, marked as ours, and used by one server at a time."""

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from turnout.cli.local.errors import ForeignFolderError, HomeUnusableError, OtherVersionError, ServerFailedError
from turnout.cli.local.owner import Owner

MARKER = "turnout-data.json"
#: The servers of a supervisor that was killed are shutting down by themselves: a checkpoint of a laptop's disk.
LEAVE_WITHIN_S = 30


@dataclass(frozen=True)
class DataFolder:
    """Where one server keeps its data, which version wrote them, and who owns them."""

    path: Path
    server: str
    program: str
    major: int
    owner: Owner

    def prepare(self, fill: Callable[[Path], None]) -> None:
        """Make the folder if it is missing, else check that it is ours, of our version, and not in use.

        Args:
            fill: writes a server's first data into an empty folder. What it leaves when it fails is removed next time.

        Raises:
            ForeignFolderError: there is something that Turnout did not make.
            OtherVersionError: another major version of the server wrote it.
            ServerFailedError: a server still uses it.
        """
        if os.path.lexists(self.path) and (not self.path.is_dir() or any(self.path.iterdir())):
            self._check_marker()
            self._wait_until_unused()
        else:
            self._create(fill)

    def _check_marker(self) -> None:
        try:
            marker = json.loads((self.path / MARKER).read_text())
            server, major = marker["server"], marker["major"]
        except (OSError, ValueError, KeyError, TypeError):
            raise ForeignFolderError(
                f"{self.path} was not made by Turnout (it has no {MARKER}), so it is left alone. "
                "Move it away, or choose another home with TURNOUT_HOME."
            ) from None
        if (server, major) != (self.server, self.major):
            raise OtherVersionError(
                f"{self.path} holds data of {server} {major}, and this is {self.server} {self.major}. "
                "Go back to the Turnout that wrote them, or move the folder away to start empty."
            )

    def _create(self, fill: Callable[[Path], None]) -> None:
        # A rename at the end: a folder under its own name is a complete one.
        fresh = self.path.with_suffix(".new")
        try:
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(mode=0o700)
            self.owner.own(fresh)
            fill(fresh)
            (fresh / MARKER).write_text(json.dumps({"server": self.server, "major": self.major}) + "\n")
            self.owner.own(fresh / MARKER)
            fresh.rename(self.path)
        except OSError as error:
            raise HomeUnusableError(f"Cannot write {self.path}: {error.strerror}.") from None

    def _wait_until_unused(self) -> None:
        give_up = time.monotonic() + LEAVE_WITHIN_S
        while users := self._users():
            if time.monotonic() > give_up:
                raise ServerFailedError(
                    f"{self.server} still runs on {self.path} as process {users[0]}, left by a Turnout that was "
                    f"killed. Stop it with `kill -INT {users[0]}`, then try again."
                )
            time.sleep(0.1)

    def _users(self) -> list[int]:
        # By working folder, never by a number in a pid file: after a reboot that number is somebody else's.
        folder = str(self.path.resolve())
        return [
            process.pid
            for process in psutil.process_iter(["name", "cwd"])
            if process.info["cwd"] == folder and process.info["name"] == self.program
        ]
