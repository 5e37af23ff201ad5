"""Callbacks on a worker: claimed from the database one by one, and run in processes of their own.

They take no slot: a fleet whose slots are all taken for hours still tells at once that a task has failed. Nor do they
travel by the broker: they also tell that while it is away.
"""

from typing import Any

from turnout.config.settings import Settings
from turnout.executor.callback_lane import CallbackLane

#: Callbacks that a worker runs at the same time.
LANES = 2
#: To end a callback's process and write how it went.
_STOPPING_S = 10


class Callbacks:
    """The lanes of a worker.

    Args:
        settings: limits.
        parts: what each lane needs of the worker.
    """

    def __init__(self, settings: Settings, **parts: Any) -> None:
        self._timeout_s = settings.worker.callback_timeout_s + settings.worker.import_timeout_s
        self._lanes = [CallbackLane(number, settings=settings, **parts) for number in range(LANES)]

    def start(self) -> None:
        """Start the lanes, which wait for the worker's door to open."""
        for lane in self._lanes:
            lane.start()

    def stop(self) -> None:
        """End the lanes when the callbacks that have begun are over."""
        for lane in self._lanes:
            lane.stop(0)
        for lane in self._lanes:
            lane.stop(self._timeout_s + _STOPPING_S)

    def look(self) -> None:
        """Look for callbacks that wait."""
        for lane in self._lanes:
            lane.look()

    def set_closed(self, *, closed: bool) -> None:
        """Begin none, or begin some again."""
        for lane in self._lanes:
            lane.is_closed = closed
        self.look()

    def hurry(self) -> None:
        """Kill what runs, and leave it to other workers."""
        for lane in self._lanes:
            lane.hurry()
