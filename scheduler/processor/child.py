"""Parse one DAG file in a process of its own, which may hang, crash, exit or print as it likes."""

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from turnout.config.settings import SECRET_VARIABLES
from turnout.metadata.dags import DeclaredDag, ImportProblem
from turnout.scheduler.processor.parsed import ParsedFile
from turnout.tasks.timetables import DagRunInfo, DataInterval, Plan

LastIntervals = Mapping[str, DataInterval]

PROGRAM = "turnout.scheduler.processor.parse"
#: The child ends itself at the time limit and says where it was; this much later it is killed.
GRACE_S = 2.0
#: How often a running parse is looked at: its process may end while something that it started holds the pipes open.
LOOK_S = 0.05
#: The same when all pipes are closed, which is what the end of a process begins with.
LAST_LOOK_S = 0.002
#: A DAG of 10,000 tasks takes about 5 MB; PostgreSQL takes no JSONB value above 255 MB.
MAX_RESULT_BYTES = 64 * 2**20
#: As much of the end of what a file prints is kept as is needed to quote its last line.
MAX_OUTPUT_BYTES = 4096
MAX_QUOTE = 200


class ParseStoppedError(Exception):
    """The DAG processor stopped while a file was being parsed."""


def parse_in_child(
    folder: Path, file: str, limit_s: float, stopping: threading.Event, last_intervals: LastIntervals
) -> ParsedFile:
    """Parse a file of the DAGs folder in a new process, and end whatever that process left behind.

    Args:
        folder: the DAGs folder.
        file: the path of the file in it.
        limit_s: the longest time that the import may take.
        stopping: gives up as soon as it is set.
        last_intervals: by DAG of the file, the data interval of its last scheduled run.

    Raises:
        ParseStoppedError: `stopping` was set.
    """
    with _Child(folder, file, limit_s, last_intervals) as child:
        child.wait(stopping)
    return child.result()


class _Child:
    """A parse under way: a process at the head of its own process group, and two pipes from it."""

    def __init__(self, folder: Path, file: str, limit_s: float, last_intervals: LastIntervals) -> None:
        self._path = folder / file
        self._file = file
        self._limit_s = limit_s
        self._deadline = time.monotonic() + limit_s + GRACE_S
        self._answer = bytearray()
        self._output = b""
        self._is_stuck = False
        self._selector = selectors.DefaultSelector()
        self._answer_end, write_end = os.pipe()
        with tempfile.TemporaryFile() as known:  # a pipe could fill up before anybody reads
            known.write(json.dumps(last_intervals, default=datetime.isoformat).encode())
            known.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", PROGRAM, str(folder), file, str(write_end), str(limit_s)],
                stdin=known,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[write_end],
                start_new_session=True,
                env=_without_secrets(os.environ),
            )
        os.close(write_end)

    def __enter__(self) -> Self:
        assert self._process.stdout  # noqa: S101  it was asked for
        self._selector.register(self._answer_end, selectors.EVENT_READ, self._take_answer)
        self._selector.register(self._process.stdout, selectors.EVENT_READ, self._take_output)
        return self

    def __exit__(self, *_: object) -> None:
        # Not reaped yet, the process still holds its number, so that the group is certainly ours.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        os.close(self._answer_end)
        assert self._process.stdout  # noqa: S101
        self._process.stdout.close()

    def wait(self, stopping: threading.Event) -> None:
        """Read what the process writes until it ends, or its time is over, or it writes too much."""
        while len(self._answer) <= MAX_RESULT_BYTES:
            if stopping.is_set():
                raise ParseStoppedError
            if time.monotonic() > self._deadline:
                self._is_stuck = True
                return
            has_ended = self._has_ended()
            has_read = self._read(0 if has_ended else LOOK_S)
            if has_ended and not has_read:
                return

    def result(self) -> ParsedFile:
        """Say what came of it, once the process has ended."""
        if len(self._answer) > MAX_RESULT_BYTES:
            return self._failed(
                f"declares more than {MAX_RESULT_BYTES >> 20} MiB of DAGs. Split it into several files."
            )
        if self._is_stuck or self._answer.startswith(b"Timeout ("):
            return self._failed(
                f"takes longer than {self._limit_s:g} s to import and was stopped. "
                "Move slow work into a task, or raise TURNOUT_PROCESSOR__IMPORT_TIMEOUT_S.",
                is_stuck=True,
            )
        try:
            return _read_result(json.loads(self._answer))
        except ValueError:
            return self._failed(f"{self._ending()} while it was imported.{self._quote()}")

    def _has_ended(self) -> bool:
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _read(self, timeout_s: float) -> bool:
        ready = self._selector.select(timeout_s if self._selector.get_map() else min(timeout_s, LAST_LOOK_S))
        chunks = [(key, os.read(key.fd, 65536)) for key, _ in ready]
        for key, chunk in chunks:
            if chunk:
                key.data(chunk)
            else:
                self._selector.unregister(key.fileobj)
        return any(chunk for _, chunk in chunks)

    def _take_answer(self, chunk: bytes) -> None:
        self._answer += chunk

    def _take_output(self, chunk: bytes) -> None:
        self._output = (self._output + chunk)[-MAX_OUTPUT_BYTES:]

    def _failed(self, what: str, *, is_stuck: bool = False) -> ParsedFile:
        return ParsedFile(problem=ImportProblem(f"{self._file} {what}", self._line()), is_stuck=is_stuck)

    def _line(self) -> int | None:
        """Find the innermost line of the file in Python's report of what was being executed."""
        report = self._answer[: 2**20].decode("utf-8", "replace")
        match = re.search(rf'File "{re.escape(str(self._path))}", line (\d+)', report)
        return int(match[1]) if match else None

    def _ending(self) -> str:
        code = self._process.returncode
        if code >= 0:
            return f"ended its process with exit code {code}"
        known = {number.value: number.name for number in signal.Signals}
        return f"was killed by {known.get(-code, f'signal {-code}')}"

    def _quote(self) -> str:
        lines = self._output.decode("utf-8", "replace").split("\n")
        last = next((" ".join(line.split()) for line in reversed(lines) if line.strip()), "")
        return f" Its last output: {last[:MAX_QUOTE]}" if last else ""


def _without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in SECRET_VARIABLES}


def _read_result(answer: dict[str, Any]) -> ParsedFile:
    problem = answer["problem"]
    return ParsedFile(
        dags=tuple(DeclaredDag(**{**dag, "plan": _read_plan(dag["plan"])}) for dag in answer["dags"]),
        problem=ImportProblem(**problem) if problem else None,
        imported=frozenset(answer["imported"]),
    )


def _read_plan(answer: dict[str, Any] | None) -> Plan | None:
    if answer is None:
        return None
    moments = [list(map(datetime.fromisoformat, run)) for run in answer["runs"]]
    runs = [DagRunInfo(run_after, DataInterval(start, end)) for run_after, start, end in moments]
    return Plan(runs, answer["is_open"])
