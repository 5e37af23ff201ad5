"""A RabbitMQ of one's own, for what must not be tried on one that others use."""

import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_START_S = 90


class OwnNode:
    """A node on loopback, for as long as a `with` block lasts; all of it is gone afterwards.

    Args:
        folder: an empty folder.
        consumer_timeout_s: how long a consumer may leave a message unacknowledged; looked at every second.
    """

    def __init__(self, folder: Path, *, consumer_timeout_s: float = 1800) -> None:
        self._folder = folder
        self.port, internal = _free_ports()
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "rabbit.conf").write_text(
            f"listeners.tcp.local = 127.0.0.1:{self.port}\n"
            f"consumer_timeout = {int(consumer_timeout_s * 1000)}\n"
            "log.console = true\nlog.file = false\n"
        )
        (folder / "advanced.config").write_text("[{rabbit, [{channel_tick_interval, 1000}]}].\n")
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"turnout-test-{self.port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbit.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_DIST_PORT": str(internal),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def __enter__(self) -> Self:
        if not PROGRAM.exists():
            pytest.skip(f"there is no {PROGRAM} (Debian's package rabbitmq-server)")
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with (self._folder / "out.log").open("a") as output:
            self._process = subprocess.Popen(
                [PROGRAM], env=self._environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        _wait_for(self.port, self._process)

    def stop(self) -> None:
        """Stop it; harmless when it does not run."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def forget(self) -> None:
        """Delete all queues and messages of a node that is stopped."""
        shutil.rmtree(self._folder / "data")


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        return one.getsockname()[1], two.getsockname()[1]


def _wait_for(port: int, node: "subprocess.Popen[bytes]") -> None:
    pause, end = threading.Event(), time.monotonic() + _START_S
    while time.monotonic() < end and node.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            pause.wait(0.1)
        else:
            return
    raise TimeoutError(f"RabbitMQ does not listen on port {port}, exit code {node.poll()}")
