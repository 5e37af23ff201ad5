"""A network that fails on demand: a proxy between a client and a server, on loopback or on a unix socket."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Address = tuple[str, int] | Path
#: The two directions, by who is to receive.
TO_SERVER, TO_CLIENT = "to_server", "to_client"
_CHUNK = 65536


class Proxy:
    """Forwards connections to a server until told to do worse; a context manager.

    Args:
        server: where the server listens.
        listen: a unix socket to listen on; None for a free port of loopback.
    """

    def __init__(self, server: Address, listen: Path | None = None) -> None:
        self._server = server
        self._listen = listen
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._open = {TO_SERVER: asyncio.Event(), TO_CLIENT: asyncio.Event()}
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._listener: asyncio.Server | None = None
        self._delay_s = 0.0
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self.forward()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.refuse()
        self._run(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def forward(self, *, delay_s: float = 0) -> None:
        """Forward everything, what was held up first; hold each piece up for a while, in each direction."""
        self._run(self._forward(delay_s))

    def hang(self, *directions: str) -> None:
        """Accept connections and keep those that are there, but deliver nothing in some directions, or in both."""
        self._run(self._hang(directions or (TO_SERVER, TO_CLIENT)))

    def cut(self) -> None:
        """Reset the connections that are there; new ones are welcome."""
        self._run(self._cut())

    def refuse(self) -> None:
        """Reset the connections that are there, and refuse new ones."""
        self._run(self._refuse())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _forward(self, delay_s: float) -> None:
        self._delay_s = delay_s
        for gate in self._open.values():
            gate.set()
        if self._listener is None:
            if self._listen is not None:
                self._listen.unlink(missing_ok=True)
                self._listener = await asyncio.start_unix_server(self._serve, self._listen)
            else:
                self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
                self.port = self._listener.sockets[0].getsockname()[1]

    async def _hang(self, directions: tuple[str, ...]) -> None:
        for direction in directions:
            self._open[direction].clear()

    async def _cut(self) -> None:
        for writer in self._writers:
            if self._listen is None and writer.get_extra_info("socket").family != socket.AF_UNIX:
                # Without lingering, the end of a connection is a reset.
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        await self._cut()

    async def _finish(self) -> None:
        """End also what was being accepted at the last moment, and let every transport close."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        server = None
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                from_server, server = await self._connect()
                self._writers.add(server)
                pumps = [self._pump(reader, server, TO_SERVER), self._pump(from_server, writer, TO_CLIENT)]
                await _first_end(pumps)
        finally:
            self._tasks.discard(task)
            for one in filter(None, (writer, server)):
                self._writers.discard(one)
                one.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        await self._open[TO_SERVER].wait()
        if isinstance(self._server, Path):
            return await asyncio.open_unix_connection(self._server)
        return await asyncio.open_connection(*self._server)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        while piece := await reader.read(_CHUNK):
            await asyncio.sleep(self._delay_s)
            await self._open[direction].wait()
            writer.write(piece)
            await writer.drain()


async def _first_end(pumps: list[Coroutine[Any, Any, None]]) -> None:
    """Run pumps until one of them ends: then the connection has ended."""
    tasks = [asyncio.ensure_future(pump) for pump in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
