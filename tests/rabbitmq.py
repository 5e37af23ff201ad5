"""A RabbitMQ of one's own, for what must not be tried on one that others use."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_START_S = 90


@contextmanager
def own_node(folder: Path, *, consumer_timeout_s: float) -> Iterator[str]:
    """Start a node on loopback, and yield its URL; all of it is gone afterwards.

    Args:
        folder: an empty folder.
        consumer_timeout_s: how long a consumer may leave a message unacknowledged; looked at every second.
    """
    port, internal = _free_ports()
    (folder / "rabbit.conf").write_text(
        f"listeners.tcp.local = 127.0.0.1:{port}\n"
        f"consumer_timeout = {int(consumer_timeout_s * 1000)}\n"
        "log.console = true\nlog.file = false\n"
    )
    (folder / "advanced.config").write_text("[{rabbit, [{channel_tick_interval, 1000}]}].\n")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "RABBITMQ_NODENAME": f"turnout-test-{port}@localhost",
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbit.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_DIST_PORT": str(internal),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }
    with (folder / "out.log").open("w") as output:
        node = subprocess.Popen([PROGRAM], env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        _wait_for(port, node)
        yield f"amqp://guest:guest@127.0.0.1:{port}//"
    finally:
        node.terminate()
        node.wait(60)


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
