"""The queue whose reader takes everything at once."""

import threading

from turnout.executor.inbox import Inbox


def test_the_reader_gets_all_that_has_arrived() -> None:
    inbox: Inbox[int] = Inbox()
    inbox.put([1])
    inbox.put([2, 3])
    assert inbox.take_all() == [1, 2, 3]
    assert inbox.take_all(timeout_s=0) == []


def test_a_waiting_reader_is_woken_by_the_first_item() -> None:
    inbox: Inbox[str] = Inbox()
    taken: list[list[str]] = []
    reader = threading.Thread(target=lambda: taken.append(inbox.take_all()))
    reader.start()
    inbox.put(["now"])
    reader.join(5)
    assert taken == [["now"]]


def test_a_closed_inbox_lets_nobody_wait() -> None:
    inbox: Inbox[int] = Inbox()
    inbox.close()
    assert inbox.take_all() == []
