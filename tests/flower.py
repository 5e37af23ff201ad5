"""Flower as a test uses it: a process of `turnout flower`, and requests to it."""

import base64
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

from tests.platform import Platform

LOG_IN = "someone:secret"


class Pages:
    """A Flower process, and requests to it."""

    def __init__(self, platform: Platform, broker_url: str) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("TURNOUT_", "FLOWER_"))}
        self.environ = own | {"TURNOUT_HOME": str(platform.folder), "TURNOUT_BROKER_URL": broker_url}
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = server.getsockname()[1]

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start `turnout flower`."""
        return subprocess.Popen(
            [sys.executable, "-m", "turnout.cli.main", "flower", "--port", str(self.port), *arguments],
            env=self.environ | variables,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def refusal(self, *arguments: str, **variables: str) -> str:
        """Start a Flower that is to fail; return the one line that it says."""
        process = self.start(*arguments, **variables)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 1, said
        [line] = said.splitlines()
        return line

    def answer(self, path: str, method: str = "GET", log_in: str = LOG_IN) -> tuple[int, str]:
        """Send a request; return status and body. Status 0: nothing listens."""
        token = base64.b64encode(log_in.encode()).decode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Basic {token}"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310  our own process
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def json(self, path: str) -> Any:
        """Ask for something of the API."""
        status, body = self.answer(path)
        assert status == 200, body
        return json.loads(body)
