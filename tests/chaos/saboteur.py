"""The saboteur: breaks one thing after the other, as a seed says, and mends it again."""

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from tests.platform import Platform
from tests.proxy import TO_CLIENT, TO_SERVER, Proxy
from turnout.cli.local.server import EmbeddedServer

#: How a network may fail.
_CUTS: Mapping[str, Callable[[Proxy], None]] = {
    "hangs": lambda proxy: proxy.hang(),
    "takes nothing": lambda proxy: proxy.hang(TO_SERVER),
    "answers nothing": lambda proxy: proxy.hang(TO_CLIENT),
    "refuses": lambda proxy: proxy.refuse(),
    "is reset": lambda proxy: proxy.cut(),
    "is slow": lambda proxy: proxy.forward(delay_s=0.05),
}


@dataclass
class Target:
    """One process of the platform, and its own ways to the servers."""

    name: str
    start: Callable[[], None]
    database: Proxy
    broker: Proxy


@dataclass(frozen=True)
class Act:
    """One act, drawn before the first of them is done: what happens meanwhile changes nothing of it."""

    what: str
    target: Target
    cut: str
    for_s: float
    pause_s: float
    seed: int  # of what depends on what there is at that moment


@dataclass
class Saboteur:
    """Does so many acts of sabotage; each kind comes before any comes again.

    Attributes:
        platform: what is sabotaged.
        targets: its processes.
        database: the server of the database.
        broker: that of the broker, which forgets everything when it restarts.
        persons: what people do meanwhile.
        seed: of everything that is random here.
    """

    platform: Platform
    targets: Sequence[Target]
    database: EmbeddedServer
    broker: EmbeddedServer
    persons: Mapping[str, Callable[[random.Random], None]]
    seed: int
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._pause = threading.Event()
        self._acts: dict[str, Callable[[Act], None]] = {
            "kill": self._kill,
            "freeze": self._freeze,
            "restart": self._restart,
            "kill a child": self._kill_child,
            "cut from the database": lambda act: self._cut([act.target.database], act),
            "cut from the broker": lambda act: self._cut([act.target.broker], act),
            "database cut from all": lambda act: self._cut([one.database for one in self.targets], act),
            "broker cut from all": lambda act: self._cut([one.broker for one in self.targets], act),
            "database frozen": lambda act: self._freeze_server(self.database, act),
            "database killed": lambda _: self._kill_server(self.database),
            "broker frozen": lambda act: self._freeze_server(self.broker, act),
            "broker killed": lambda _: self._kill_server(self.broker),
            **{name: self._as_person(do) for name, do in self.persons.items()},
        }

    @property
    def kinds(self) -> int:
        """How many kinds of acts there are."""
        return len(self._acts)

    def work(self, acts: int) -> None:
        """Break and mend; say what is done, so that a failure can be understood."""
        began = time.monotonic()
        for number, act in enumerate(self._draw(acts)):
            said = f"{act.what} ({act.target.name}, {act.cut}, {act.for_s:.1f} s)"
            print(f"{time.monotonic() - began:6.1f} s, act {number}: {said}")  # noqa: T201
            self._acts[act.what](act)
            self.done[act.what] += 1
            self._pause.wait(act.pause_s)

    def _draw(self, acts: int) -> list[Act]:
        dice = random.Random(self.seed)  # noqa: S311  the same acts each time
        deck: list[str] = []
        drawn = []
        for _ in range(acts):
            deck = deck or dice.sample(sorted(self._acts), self.kinds)
            what, target, cut = deck.pop(), dice.choice(self.targets), dice.choice(sorted(_CUTS))
            times = dice.uniform(0.2, 4.0), dice.uniform(0.1, 1.0)
            drawn.append(Act(what, target, cut, *times, dice.randrange(1 << 30)))
        return drawn

    def _kill(self, act: Act) -> None:
        self.platform.kill(act.target.name)
        act.target.start()

    def _freeze(self, act: Act) -> None:
        self.platform.kill(act.target.name, signal.SIGSTOP)
        self._pause.wait(act.for_s)
        self.platform.kill(act.target.name, signal.SIGCONT)

    def _restart(self, act: Act) -> None:
        process = self.platform.processes[act.target.name]
        self.platform.kill(act.target.name, signal.SIGTERM)
        process.wait(60)
        act.target.start()

    def _kill_child(self, act: Act) -> None:
        dice = random.Random(act.seed)  # noqa: S311
        workers = [one.name for one in self.targets if one.name.startswith("worker")]
        with suppress(psutil.NoSuchProcess):  # it has ended by itself
            children = psutil.Process(self.platform.processes[dice.choice(workers)].pid).children()
            dice.choice(sorted(children, key=lambda child: child.pid)).kill()

    def _cut(self, ways: Sequence[Proxy], act: Act) -> None:
        for way in ways:
            _CUTS[act.cut](way)
        self._pause.wait(act.for_s)
        for way in ways:
            way.forward()

    def _freeze_server(self, server: EmbeddedServer, act: Act) -> None:
        frozen = _processes_of(server)
        for process in frozen:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        self._pause.wait(act.for_s)
        for process in frozen:
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def _kill_server(self, server: EmbeddedServer) -> None:
        killed = _processes_of(server)
        for process in killed:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(killed, timeout=30)
        server.start()
        self.platform.engine.dispose()

    def _as_person(self, do: Callable[[random.Random], None]) -> Callable[[Act], None]:
        return lambda act: do(random.Random(act.seed))  # noqa: S311


def _processes_of(server: EmbeddedServer) -> list[psutil.Process]:
    assert server.pid is not None
    main = psutil.Process(server.pid)
    return [main, *main.children(recursive=True)]
