"""The proxy that plays a failing network."""

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proxy import TO_CLIENT, Proxy


class Echo(socketserver.BaseRequestHandler):
    """Says what it hears."""

    heard: list[bytes]

    def handle(self) -> None:
        while piece := self.request.recv(100):
            self.server.heard.append(piece)  # type: ignore[attr-defined]
            self.request.sendall(piece)


@pytest.fixture
def server() -> Iterator[socketserver.ThreadingTCPServer]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        server.heard = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield server
        server.shutdown()


@pytest.fixture
def proxy(server: socketserver.ThreadingTCPServer) -> Iterator[Proxy]:
    with Proxy(("127.0.0.1", server.server_address[1])) as proxy:
        yield proxy


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=20)


def ask(client: socket.socket, question: bytes = b"hello") -> bytes:
    client.sendall(question)
    return client.recv(100)


def test_it_forwards_and_delays(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert ask(client) == b"hello"
        proxy.forward(delay_s=0.1)
        began = time.monotonic()
        assert ask(client) == b"hello"
        assert time.monotonic() - began >= 0.2


def test_it_forwards_from_a_unix_socket(server: socketserver.ThreadingTCPServer, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with Proxy(("127.0.0.1", server.server_address[1]), path), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        assert ask(client) == b"hello"


def test_it_cuts_and_welcomes_new_connections(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert ask(client) == b"hello"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(100)
    with connect(proxy) as client:
        assert ask(client) == b"hello"


def test_it_refuses_until_it_forwards_on_the_same_port(proxy: Proxy) -> None:
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    proxy.forward()
    with connect(proxy) as client:
        assert ask(client) == b"hello"


def test_while_it_hangs_it_accepts_and_answers_nothing(proxy: Proxy) -> None:
    with connect(proxy) as old:
        assert ask(old) == b"hello"
        proxy.hang()
        with connect(proxy) as new:
            for client in (old, new):
                client.settimeout(0.05)
                with pytest.raises(TimeoutError):
                    ask(client)
            proxy.forward()
            for client in (old, new):
                client.settimeout(20)
                assert client.recv(100) == b"hello"


def test_one_direction_may_hang_alone(proxy: Proxy, server: socketserver.ThreadingTCPServer) -> None:
    with connect(proxy) as client:
        proxy.hang(TO_CLIENT)
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ask(client)
        assert server.heard == [b"hello"]  # type: ignore[attr-defined]
