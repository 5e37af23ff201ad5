"""The waker: news end the sleep of the loop, also after the connection that listens was lost."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.control import Control
from turnout.metadata.wakeups import notify_schedulers
from turnout.scheduler.waker import Waker

Eventually = Callable[..., object]
LONG_S = 60


@pytest.fixture
def waker(database_url: str, control: Control, eventually: Eventually) -> Iterator[Waker]:
    """A waker that listens, and has forgotten what woke it at its start."""
    waker = Waker(database_url, "s")
    waker.start()
    eventually(lambda: listening(control))
    sleep(waker)
    waker.take_news()
    yield waker
    waker.stop()


def listening(control: Control) -> list[int]:
    return control.sql(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'turnout s waker' AND query ~ 'LISTEN'"
    )


def sleep(waker: Waker) -> None:
    """Sleep until news come; fail when none do."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(waker.sleep, LONG_S).result(LONG_S / 2)


def test_a_notification_ends_the_sleep(waker: Waker, control: Control) -> None:
    control.do(notify_schedulers)
    sleep(waker)


def test_news_that_came_before_the_sleep_keep_the_loop_awake(waker: Waker) -> None:
    waker._on_notify()
    sleep(waker)
    waker.take_news()
    waker.sleep(0.01)


def test_a_notification_that_is_rolled_back_wakes_nobody(waker: Waker, control: Control) -> None:
    with control.engine.connect() as connection:
        notify_schedulers(connection)
        connection.rollback()
    waker.sleep(0.05)
    assert not waker._news.is_set()


def test_a_lost_connection_is_replaced_and_wakes_the_loop_once(
    waker: Waker, control: Control, eventually: Eventually
) -> None:
    (before,) = listening(control)
    control.sql("SELECT pg_terminate_backend(:pid, 5000)", pid=before)
    sleep(waker)  # what was said meanwhile is not known, so it is time to look
    waker.take_news()
    eventually(lambda: listening(control))
    control.do(notify_schedulers)
    sleep(waker)
    assert listening(control) != [before]


def test_a_stop_ends_the_sleep(waker: Waker) -> None:
    waker.stop()
    waker.sleep(LONG_S)
    waker.stop()
