"""The embedded Valkey."""

import signal
import socket
from pathlib import Path

from turnout.cli.local.binaries import valkey_program
from turnout.cli.local.server import EmbeddedServer
from turnout.config.embedded import VALKEY_SOCKET


class ValkeyServer(EmbeddedServer):
    """Valkey 9 on a Unix socket only, whose queues survive a restart."""

    title = "Valkey"
    program = "valkey-server"
    major = 9
    stop_signals = ((signal.SIGTERM, 20),)

    def command(self) -> list[str]:
        """Write the command line, with paths as seen from the data folder."""
        options = {
            "port": "0",
            "unixsocket": f"{self.sockets_from_data}/{VALKEY_SOCKET}",
            "unixsocketperm": "700",
            "dir": ".",
            "save": "",
            "appendonly": "yes" if self.durable else "no",
            # A second of queued messages may go with the machine: any scheduler publishes them again.
            "appendfsync": "everysec",
            # A queue must refuse rather than forget.
            "maxmemory-policy": "noeviction",
            "loglevel": "notice",
        }
        program = str(valkey_program(self.owner))
        return [program, *(part for name, value in options.items() for part in (f"--{name}", value))]

    def fill(self, folder: Path) -> None:
        """Leave the folder empty: Valkey writes its files itself."""

    def clear_stale(self) -> None:
        """Remove the socket of a killed server, so that nobody takes it for the next one's."""
        (self.sockets / VALKEY_SOCKET).unlink(missing_ok=True)

    def is_ready(self) -> bool:
        """Tell whether the server answers PING, which it does once its data are loaded."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            try:
                client.connect(str(self.sockets / VALKEY_SOCKET))
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")
            except OSError:
                return False
