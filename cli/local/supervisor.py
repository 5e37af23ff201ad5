"""Run a handful of processes: pass on what they print, start again what dies, stop all in time."""

import selectors
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from turnout.cli.local.backoff import Backoff
from turnout.cli.local.child import Child, ProcessSpec

#: How long running tasks may go on after the first SIGTERM, before the second one hands them back.
WARM_STOP_S = 10.0
#: How long handing back may take, before SIGKILL.
COLD_STOP_S = 10.0


@dataclass(frozen=True)
class Ended:
    """A process ended.

    Args:
        name: which one.
        pid: its number, which is free now.
        code: its exit code; negative when a signal ended it.
    """

    name: str
    pid: int
    code: int

    def __str__(self) -> str:
        if self.code >= 0:
            return f"{self.name} ended with exit code {self.code}"
        known = {number.value: number.name for number in signal.Signals}
        return f"{self.name} was killed by {known.get(-self.code, f'signal {-self.code}')}"


@dataclass
class _Place:
    """A name in the supervisor, and who lives there at the moment."""

    spec: ProcessSpec
    child: Child | None = None
    started_at: float = 0
    due_at: float | None = None
    backoff: Backoff = field(default_factory=Backoff)


class Supervisor:
    """Named processes under one roof.

    Use it in the main thread: the kernel ends the processes together with the thread that started them. Nothing happens
    outside its methods; whoever waits calls `poll`. The end of a `with` block stops all.

    Args:
        environment: the variables that every process gets.
        write: takes each line of output, with the name of the process that printed it.
        say: takes the supervisor's own remarks.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        write: Callable[[str, str], None],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = dict(environment)
        self._write = write
        self._say = say
        self._clock = clock
        self._places: dict[str, _Place] = {}
        self._selector = selectors.DefaultSelector()
        self._stopping = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        self._selector.close()

    def start(self, spec: ProcessSpec) -> int:
        """Start a process and return its pid."""
        place = self._places[spec.name] = _Place(spec)
        return self._start(place).pid

    def pids(self) -> dict[str, int]:
        """Name the processes that live, with their pids."""
        return {name: place.child.pid for name, place in self._places.items() if place.child}

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to the process of that name, if it lives."""
        if child := self._places[name].child:
            child.send(number)

    def poll(self, timeout_s: float = 0) -> list[Ended]:
        """Pass on output, take note of deaths, start again what is due; wait up to `timeout_s` for any of these."""
        ended = []
        for key, _ in self._selector.select(self._until_next_start(timeout_s)):
            place: _Place | None = key.data
            if place is None or place.child is None:
                continue
            if key.fd == place.child.ended:
                ended.append(self._bury(place, place.child))
            else:
                self._pass_on(place, place.child)
        self._start_due()
        return ended

    def wake_on(self, descriptor: int) -> None:
        """Have `poll` return early when a descriptor becomes readable; reading it is the caller's task."""
        self._selector.register(descriptor, selectors.EVENT_READ)

    def stop(self, hurry: Callable[[], bool] = lambda: False) -> None:
        """Stop all: SIGTERM, again for those with work in hand, then SIGKILL.

        Args:
            hurry: asked after each poll; True goes on to the next, less patient step.
        """
        self._stopping = True
        for patience_s in (WARM_STOP_S, COLD_STOP_S):
            self._signal_all(signal.SIGTERM)
            give_up = self._clock() + patience_s
            while self.pids() and (left_s := give_up - self._clock()) > 0 and not hurry():
                self.poll(left_s)
        for name in self.pids():
            self._say(f"{name} does not stop: it is killed")
        self._signal_all(signal.SIGKILL)
        while self.pids():
            self.poll(1)

    def _signal_all(self, number: signal.Signals) -> None:
        for name in self.pids():
            self.send(name, number)

    def _start(self, place: _Place) -> Child:
        place.child = child = Child(place.spec, self._environment)
        place.started_at, place.due_at = self._clock(), None
        self._selector.register(child.output, selectors.EVENT_READ, place)
        self._selector.register(child.ended, selectors.EVENT_READ, place)
        return child

    def _pass_on(self, place: _Place, child: Child) -> None:
        lines = child.read_lines()
        if lines is None:
            self._selector.unregister(child.output)
        for line in lines or ():
            self._write(place.spec.name, line)

    def _bury(self, place: _Place, child: Child) -> Ended:
        self._selector.unregister(child.ended)
        if child.output in self._selector.get_map():
            self._selector.unregister(child.output)
        ended = Ended(place.spec.name, child.pid, child.reap())
        for line in child.last_lines():
            self._write(place.spec.name, line)
        place.child = None
        self._plan_restart(place, ended)
        return ended

    def _plan_restart(self, place: _Place, ended: Ended) -> None:
        if self._stopping:
            return
        if not place.spec.restart:
            self._say(str(ended))
            return
        now = self._clock()
        delay_s = place.backoff.delay_after(now - place.started_at)
        place.due_at = now + delay_s
        self._say(f"{ended}: starting it again in {delay_s:.0f} s")

    def _until_next_start(self, timeout_s: float) -> float:
        due = [place.due_at - self._clock() for place in self._places.values() if place.due_at is not None]
        return max(0, min([timeout_s, *due])) if not self._stopping else timeout_s

    def _start_due(self) -> None:
        for place in self._places.values():
            if place.due_at is not None and place.due_at <= self._clock() and not self._stopping:
                self._start(place)
