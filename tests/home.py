"""A home of its own, and the commands that use it, as processes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


class Home:
    """A home, and the commands that use it.

    Args:
        path: the folder; made here, with an empty `dags` in it.
        variables: more of the environment.
    """

    def __init__(self, path: Path, **variables: str) -> None:
        self.path = path
        own = {name: value for name, value in os.environ.items() if not name.startswith("TURNOUT_")}
        self.environ = own | {"TURNOUT_HOME": str(path)} | variables
        self.platforms: list[subprocess.Popen[str]] = []
        (path / "dags").mkdir(parents=True)

    def up(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the platform."""
        with (self.path / f"up-{len(self.platforms)}.log").open("w") as log:
            self.platforms.append(self._start("up", *arguments, stdout=log, stderr=log))
        return self.platforms[-1]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another command to its end."""
        process = self._start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=100)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def json(self, *arguments: str) -> Any:
        """Run a command that prints JSON; None while it fails."""
        ended = self.run(*arguments, "-o", "json")
        return json.loads(ended.stdout) if ended.returncode == 0 else None

    def kill(self) -> None:
        """End every platform that still runs."""
        for platform in self.platforms:
            platform.kill()
            platform.wait()

    def _start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "turnout.cli.main", *arguments]
        return subprocess.Popen(command, env=self.environ, stdin=subprocess.DEVNULL, text=True, **options)
