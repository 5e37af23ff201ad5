import os
import signal
import sys
from collections.abc import Callable, Iterator

import pytest

from turnout.cli.local.child import ProcessSpec
from turnout.cli.local.supervisor import Supervisor

from .conftest import lives

Eventually = Callable[..., None]
POLITE = (
    "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('bye')));"
    "print('up', flush=True); signal.pause()"
)
WAIT = "import signal; print('up', flush=True); signal.pause()"
DEAF = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\nwhile True: signal.pause()"
)


class Stage:
    """A supervisor, what it was told and what it said."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[tuple[str, str]] = []
        self.remarks: list[str] = []
        self.supervisor = Supervisor(
            {"PATH": os.defpath, "SHARED": "shared"},
            lambda name, line: self.lines.append((name, line)),
            self.remarks.append,
            clock=lambda: self.now,
        )

    def start(self, name: str, script: str, *, restart: bool = True, **environment: str) -> int:
        return self.supervisor.start(ProcessSpec(name, (sys.executable, "-c", script), environment, restart=restart))

    def polled(self, condition: Callable[[], object]) -> Callable[[], object]:
        def poll() -> object:
            self.supervisor.poll(0.01)
            return condition()

        return poll


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.supervisor.stop(hurry=lambda: True)
    stage.supervisor.__exit__(None, None, None)


def test_what_processes_print_is_passed_on_with_their_names(stage: Stage, eventually: Eventually) -> None:
    script = "import os, sys; print(os.environ['SHARED'], os.environ['OWN']); sys.stderr.write('no end')"
    stage.start("one", script, restart=False, OWN="1")
    stage.start("two", script, restart=False, OWN="2")
    eventually(stage.polled(lambda: not stage.supervisor.pids()))
    assert sorted(stage.lines) == [("one", "no end"), ("one", "shared 1"), ("two", "no end"), ("two", "shared 2")]
    assert sorted(stage.remarks) == ["one ended with exit code 0", "two ended with exit code 0"]


def test_all_of_a_long_output_arrives_even_when_its_process_has_ended(stage: Stage, eventually: Eventually) -> None:
    stage.start("one", "for n in range(100_000): print(n)", restart=False)
    eventually(stage.polled(lambda: not stage.supervisor.pids()))
    assert [line for _, line in stage.lines] == [str(number) for number in range(100_000)]


def test_a_process_that_dies_is_started_again_after_a_pause(stage: Stage, eventually: Eventually) -> None:
    pid = stage.start("worker-1", WAIT)
    eventually(stage.polled(lambda: stage.lines))
    stage.supervisor.send("worker-1", signal.SIGKILL)
    eventually(stage.polled(lambda: stage.remarks))
    assert stage.remarks == ["worker-1 was killed by SIGKILL: starting it again in 1 s"]
    assert stage.supervisor.pids() == {}
    stage.now = 0.9
    stage.supervisor.poll()
    assert stage.supervisor.pids() == {}
    stage.now = 1.0
    stage.supervisor.poll()
    assert stage.supervisor.pids()["worker-1"] != pid


def test_a_process_that_keeps_dying_is_started_less_and_less_often(stage: Stage, eventually: Eventually) -> None:
    stage.start("one", "raise SystemExit(3)")
    for _ in range(3):
        count = len(stage.remarks)
        eventually(stage.polled(lambda count=count: len(stage.remarks) > count))
        stage.now += 30
    assert [remark.rpartition(": ")[2] for remark in stage.remarks] == [
        "starting it again in 1 s",
        "starting it again in 2 s",
        "starting it again in 4 s",
    ]
    assert stage.remarks[0].startswith("one ended with exit code 3")


def test_one_that_is_not_to_be_restarted_stays_away(stage: Stage, eventually: Eventually) -> None:
    stage.start("one", "raise SystemExit(3)", restart=False)
    eventually(stage.polled(lambda: stage.remarks))
    stage.now = 100
    stage.supervisor.poll()
    assert stage.supervisor.pids() == {}


def test_what_a_dead_process_started_ends_with_it(stage: Stage, eventually: Eventually) -> None:
    stage.start(
        "worker-1",
        "import subprocess, signal; print(subprocess.Popen(['sleep', '60']).pid, flush=True); signal.pause()",
    )
    eventually(stage.polled(lambda: stage.lines))
    grandchild = int(stage.lines[0][1])
    os.kill(stage.supervisor.pids()["worker-1"], signal.SIGKILL)
    eventually(stage.polled(lambda: stage.remarks))
    eventually(lambda: not lives(grandchild))


def test_stop_asks_first(stage: Stage, eventually: Eventually) -> None:
    stage.start(
        "one",
        POLITE,
    )
    eventually(stage.polled(lambda: stage.lines))
    stage.supervisor.stop()
    assert stage.lines == [("one", "up"), ("one", "bye")]
    assert stage.remarks == []


def test_stop_kills_who_does_not_listen_and_says_so(stage: Stage, eventually: Eventually) -> None:
    pid = stage.start("one", DEAF)
    eventually(stage.polled(lambda: stage.lines))
    stage.supervisor.stop(hurry=lambda: True)
    assert not lives(pid)
    assert stage.remarks == ["one does not stop: it is killed"]


def test_stop_waits_no_longer_than_both_patiences(stage: Stage, eventually: Eventually) -> None:
    stage.start("one", DEAF)
    eventually(stage.polled(lambda: stage.lines))

    def later() -> bool:
        stage.now += 5
        return False

    # Each poll returns at once, as this descriptor is readable for ever.
    read_end, write_end = os.pipe()
    os.close(write_end)
    stage.supervisor.wake_on(read_end)
    stage.supervisor.stop(hurry=later)
    os.close(read_end)
    assert stage.now == 20


def test_a_process_that_was_waiting_to_be_restarted_is_not_after_stop(stage: Stage, eventually: Eventually) -> None:
    stage.start("one", "raise SystemExit(3)")
    eventually(stage.polled(lambda: stage.remarks))
    stage.supervisor.stop()
    stage.now = 100
    stage.supervisor.poll()
    assert stage.supervisor.pids() == {}
