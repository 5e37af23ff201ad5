"""The waker: lets the loop sleep until something is to be done."""

import threading

import structlog

from turnout.config.outage import Outage
from turnout.metadata import wakeups
from turnout.metadata.engine import open_engine
from turnout.metadata.errors import MetadataError

log = structlog.get_logger(__name__)

STOP_TIMEOUT_S = 5.0


class Waker:
    """Listens for notifications, on a connection of its own, and wakes the loop.

    While the database is away the loop finds out for itself; when it is back, `listen` wakes the loop once, since
    notifications sent meanwhile are gone.
    """

    def __init__(self, database_url: str, name: str) -> None:
        self._engine = open_engine(database_url, name=f"{name} waker")
        self._news = threading.Event()
        self._outage = Outage("notifications")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waker", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening, and wake whoever sleeps."""
        self._stopping.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT_S)
        self._engine.dispose()

    def sleep(self, timeout_s: float) -> None:
        """Sleep until there is news, or until the time is up."""
        self._news.wait(timeout_s)

    def take_news(self) -> None:
        """Forget the news so far: a pass that begins now will see what they were about."""
        self._news.clear()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                wakeups.listen(self._engine, self._on_notify, self._stopping)
            except MetadataError as error:
                self._stopping.wait(self._outage.note(error))
            except Exception as error:  # a bug: without this thread the loop would wake up by its timers only
                log.exception("waker.failed")
                self._stopping.wait(self._outage.note(error))

    def _on_notify(self) -> None:
        self._outage.over()
        self._news.set()
