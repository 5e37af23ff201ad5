"""Messages on the channel's socket."""

import socket
import threading

from hypothesis import given
from hypothesis import strategies as st

from turnout.executor.frames import FrameReader, read_frame, write_frame

MESSAGES = st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=3), max_size=5)


@given(MESSAGES, st.integers(1, 7))
def test_messages_arrive_whole_however_they_were_cut(messages: list[dict[str, object]], size: int) -> None:
    sent = _Recorder()
    for message in messages:
        write_frame(sent, message)  # type: ignore[arg-type]
    reader = FrameReader()
    pieces = [sent.data[start : start + size] for start in range(0, len(sent.data), size)]
    assert [message for piece in pieces for message in reader.feed(piece)] == messages


def test_a_message_larger_than_a_socket_buffer_arrives() -> None:
    large = {"value": "x" * 1_000_000}
    here, there = socket.socketpair()
    with here, there:
        writer = threading.Thread(target=write_frame, args=(here, large))
        writer.start()
        assert read_frame(there) == large
        writer.join()


class _Recorder:
    def __init__(self) -> None:
        self.data = b""

    def sendall(self, data: bytes) -> None:
        self.data += data
