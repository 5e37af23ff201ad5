"""The worker's event loop turns while there is no broker, also while one is asked that does not answer."""

import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from kombu.asynchronous import Hub
from pydantic import SecretStr

from turnout.config.settings import Settings
from turnout.executor.app import make_app
from turnout.executor.consumer import AttemptConsumer
from turnout.executor.loop_calls import LoopCalls


class LeftError(Exception):
    """Ends the loop."""


@pytest.fixture
def silent_server() -> Iterator[socket.socket]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        yield server


def is_open(line: socket.socket) -> bool:
    line.settimeout(0)
    try:
        while line.recv(4096):
            pass
    except BlockingIOError:
        return True
    return False


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_calls_are_made_while_a_broker_that_hangs_is_asked(silent_server: socket.socket, scheme: str) -> None:
    url = f"{scheme}://127.0.0.1:{silent_server.getsockname()[1]}//"
    app = make_app(Settings(broker_url=SecretStr(url)))
    hub, calls = Hub(), LoopCalls()
    calls.connect(hub)
    consumer = AttemptConsumer.__new__(AttemptConsumer)
    consumer.hub, consumer.timer_entries_before_start = hub, set()
    consumer.controller = SimpleNamespace(calls=calls, pool=SimpleNamespace(register_with_event_loop=lambda _hub: None))
    asked: list[socket.socket] = []

    def leave() -> None:
        raise LeftError

    def wait_for_question() -> None:
        asked.append(silent_server.accept()[0])
        calls.put(leave)

    waiting = threading.Thread(target=wait_for_question)
    waiting.start()
    connection = app.connection_for_read()
    with pytest.raises(LeftError):
        consumer.ensure_connected(connection)
    waiting.join()
    with asked[0]:
        assert is_open(asked[0])  # who asked still waits for an answer
    for thread in threading.enumerate():
        if thread.name == "connect":
            thread.join()
    connection.release()
    hub.close()
