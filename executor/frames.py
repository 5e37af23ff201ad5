"""Messages on a stream socket: the length of a JSON text, then the text."""

import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

_LENGTH = struct.Struct(">I")
_CHUNK = 1 << 16

Message = dict[str, Any]


def write_frame(connection: socket.socket, message: Message) -> None:
    """Send one message."""
    body = json.dumps(message).encode()
    connection.sendall(_LENGTH.pack(len(body)) + body)


def read_frame(connection: socket.socket) -> Message:
    """Wait for one message.

    Raises:
        ConnectionError: the other end is gone.
    """
    reader = FrameReader()
    while data := connection.recv(_CHUNK):
        for message in reader.feed(data):
            return message
    raise ConnectionError("the other end is gone")


class FrameReader:
    """Puts messages together from the pieces in which they arrive.

    Args:
        max_bytes: the longest message that is read; None for any.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Add a piece and yield the messages that are complete.

        Raises:
            ValueError: this is no message, or too long a one.
        """
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if self._max_bytes is not None and length > self._max_bytes:
                raise ValueError(f"A message of {length} bytes is longer than {self._max_bytes}.")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield _message(body)


def _message(body: bytes) -> Message:
    try:
        message = json.loads(body)
    except RecursionError as error:
        raise ValueError("A message is nested too deeply.") from error
    if not isinstance(message, dict):
        raise ValueError("A message is not an object.")  # noqa: TRY004  one kind of error for all that is no message
    return message
