"""The saboteur: breaks one thing after the other, as a seed says, and mends it again."""

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psutil

from tests.platform import Platform
from tests.proxy import TO_CLIENT, TO_SERVER, Proxy

#: How a network may fail.
_CUTS: tuple[Callable[[Proxy], None], ...] = (
    lambda proxy: proxy.hang(),
    lambda proxy: proxy.hang(TO_SERVER),
    lambda proxy: proxy.hang(TO_CLIENT),
    lambda proxy: proxy.refuse(),
    lambda proxy: proxy.cut(),
    lambda proxy: proxy.forward(delay_s=0.05),
)


@dataclass
class Target:
    """One process of the platform, and its own ways to the servers."""

    name: str
    start: Callable[[], None]
    database: Proxy
    broker: Proxy

    @property
    def is_worker(self) -> bool:
        return self.name.startswith("worker")


@dataclass
class Saboteur:
    """Does so many acts of sabotage.

    Attributes:
        platform: what is sabotaged.
        targets: its processes.
        restart_broker: restarts the broker, which forgets everything.
        clear: clears a task, as a person does.
        seed: of everything that is random here.
    """

    platform: Platform
    targets: Mapping[str, Target]
    restart_broker: Callable[[], None]
    clear: Callable[[random.Random], None]
    seed: int
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311  the same acts each time
        self._pause = threading.Event()
        self._acts: dict[str, Callable[[Target], None]] = {
            "kill": self._kill,
            "freeze": self._freeze,
            "restart": self._restart,
            "kill a child": self._kill_child,
            "cut from the database": lambda target: self._cut([target.database], 4.0),
            "cut from the broker": lambda target: self._cut([target.broker], 4.0),
            "database away": lambda _: self._cut([one.database for one in self.targets.values()], 3.0),
            "broker away": lambda _: self._cut([one.broker for one in self.targets.values()], 3.0),
            "broker restarted": lambda _: self.restart_broker(),
            "clear": lambda _: self.clear(self._random),
        }

    def work(self, acts: int) -> None:
        """Break and mend; say what is done, so that a failure can be understood."""
        began = time.monotonic()
        for number in range(acts):
            act = self._random.choice(list(self._acts))
            target = self._random.choice(list(self.targets.values()))
            print(f"{time.monotonic() - began:6.1f} s, act {number}: {act} ({target.name})")  # noqa: T201
            self._acts[act](target)
            self.done[act] += 1
            self._pause.wait(self._random.uniform(0.1, 1.0))

    def _kill(self, target: Target) -> None:
        self.platform.kill(target.name)
        target.start()

    def _freeze(self, target: Target) -> None:
        self.platform.kill(target.name, signal.SIGSTOP)
        self._pause.wait(self._random.uniform(0.1, 5.0))
        self.platform.kill(target.name, signal.SIGCONT)

    def _restart(self, target: Target) -> None:
        process = self.platform.processes[target.name]
        self.platform.kill(target.name, signal.SIGTERM)
        process.wait(60)
        target.start()

    def _kill_child(self, target: Target) -> None:
        workers = [one for one in self.targets.values() if one.is_worker]
        victim = target if target.is_worker else self._random.choice(workers)
        children = psutil.Process(self.platform.processes[victim.name].pid).children()
        if children:
            self._random.choice(sorted(children, key=lambda child: child.pid)).kill()

    def _cut(self, ways: list[Proxy], longest_s: float) -> None:
        cut = self._random.choice(_CUTS)
        for way in ways:
            cut(way)
        self._pause.wait(self._random.uniform(0.2, longest_s))
        for way in ways:
            way.forward()
