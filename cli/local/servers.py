"""The embedded servers of one home, together."""

import contextlib
from pathlib import Path
from types import TracebackType
from typing import Self

from turnout.cli.local.home import hold_home, make_servers_folders
from turnout.cli.local.postgres import PostgresServer
from turnout.cli.local.server import EmbeddedServer
from turnout.cli.local.valkey import ValkeyServer
from turnout.config.embedded import embedded_broker_url, embedded_database_url


class EmbeddedServers:
    """Hold a home, and run its PostgreSQL and Valkey until the end of a `with` block.

    Enter it in the main thread: the servers stop when the thread that started them ends.

    Args:
        home: the home folder; made when it is missing.
        postgres: whether to run PostgreSQL.
        valkey: whether to run Valkey.
        durable: whether a committed write survives a crash of the machine; only tests do without.

    Raises:
        LocalError: on entry, when the home is taken or unusable, or a server does not start.
    """

    def __init__(self, home: Path, *, postgres: bool = True, valkey: bool = True, durable: bool = True) -> None:
        self.home = home.absolute()
        self.running: list[EmbeddedServer] = []
        self._kinds: list[type[EmbeddedServer]] = [PostgresServer] * postgres + [ValkeyServer] * valkey
        self._durable = durable
        self._exit = contextlib.ExitStack()

    @property
    def database_url(self) -> str:
        """The URL of the PostgreSQL."""
        return embedded_database_url(self.home)

    @property
    def broker_url(self) -> str:
        """The URL of the Valkey."""
        return embedded_broker_url(self.home)

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            undo.enter_context(hold_home(self.home))
            if self._kinds:
                owner = make_servers_folders(self.home)
            for kind in self._kinds:
                server = kind(self.home, owner, durable=self._durable)
                server.start()
                undo.callback(server.stop)
                self.running.append(server)
            self._exit = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.running.clear()
        self._exit.close()
