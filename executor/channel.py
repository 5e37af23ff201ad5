"""The channel: a Unix socket on which children ask the main process for what their attempt needs.

Children have no database. Each request carries the token of an attempt, which its child got with its assignment, and an
attempt is answered only about its own DAG run. The socket lives in a folder that only this user may enter.
"""

import os
import resource
import selectors
import shutil
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from turnout.executor.folder_lock import lock_folder
from turnout.executor.frames import FrameReader, write_frame
from turnout.executor.roster import HeldAttempt, Roster
from turnout.executor.service import Service
from turnout.executor.stopping import Stopper
from turnout.metadata import xcom
from turnout.metadata.engine import Engine, transact
from turnout.metadata.errors import MetadataError

log = structlog.get_logger(__name__)

#: A child that does not read its answer for so long is left alone, so that the others get theirs.
_ANSWER_TIMEOUT_S = 5
_PAUSE_S = 0.1

#: Of the folders of sockets; the pid of the worker follows.
_PREFIX = "turnout-worker-"
_TRIES = 3
#: The path of a socket may have 107 bytes on Linux; so many are left for the folder above ours.
_LONGEST_ROOT = 50

#: What a request has beside an XCom.
_REQUEST_BYTES = 1 << 16
#: A JSON text as a string in a JSON text grows: `"` becomes two characters, `é` six bytes instead of two.
_GROWTH = 3

Answer = dict[str, Any]


def _root() -> Path:
    """Choose the folder for sockets: that of temporary files, unless a socket's path would be too long there."""
    root = Path(tempfile.gettempdir())
    return root if len(os.fsencode(root)) <= _LONGEST_ROOT else Path("/tmp")  # noqa: S108  mkdtemp makes it safe


def _remove_leftovers(root: Path) -> None:
    """Remove the folders of workers of this user that were killed."""
    for folder in root.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with suppress(OSError):
            is_ours = pid.isdigit() and folder.stat().st_uid == os.getuid()
            if is_ours and (lock := lock_folder(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _make_folder(root: Path) -> Path:
    """Make the folder of this worker, locked for as long as it lives."""
    for _ in range(_TRIES):
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=root))
        if lock_folder(folder) is not None:
            break  # else somebody has just taken it for a leftover, or nothing can be locked there
    return folder


class _Line:
    """One connection, and what has arrived on it."""

    def __init__(self, connection: socket.socket, max_bytes: int) -> None:
        self.connection = connection
        self.reader = FrameReader(max_bytes)
        self.is_open = True
        self.has_asked = False  # for an attempt of this worker


class Channel(Service):
    """The main process's end of the channel. Nothing that an attempt sends may harm others.

    Args:
        engine: where XComs are.
        roster: the attempts held.
        stopper: told how far attempts are.
        xcom_max_bytes: the largest return value, in bytes of JSON.
    """

    def __init__(self, engine: Engine, roster: Roster, stopper: Stopper, *, xcom_max_bytes: int) -> None:
        super().__init__("channel")
        self._engine = engine
        self._roster = roster
        self._stopper = stopper
        self._max_bytes = _REQUEST_BYTES + _GROWTH * xcom_max_bytes
        self._most_lines = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2  # the other half is for all the rest
        root = _root()
        _remove_leftovers(root)
        self._folder = _make_folder(root)
        self.path = str(self._folder / "channel.sock")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(128)
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        self._requests: dict[str, Callable[[HeldAttempt, Answer], Answer]] = {
            "xcom": self._pull,
            "conf": lambda attempt, _request: {"value": attempt.claimed.conf},
            "return_value": self._keep_return_value,
            "importing": self._note_import,
            "imported": self._note_imported,
        }

    def run(self) -> None:
        """Answer until stopped."""
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        while not self._stopping.is_set():
            for key, _events in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, _Line) and key.data.is_open:
                    self._receive(key.data)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wake(self) -> None:
        self._waker.send(b"\0")

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            log.warning("channel.full", error=str(error))
            self._stopping.wait(_PAUSE_S)
            return
        connection.settimeout(_ANSWER_TIMEOUT_S)
        lines = [key.data for key in self._selector.get_map().values() if isinstance(key.data, _Line)]
        if len(lines) >= self._most_lines:
            strangers = [line for line in lines if not line.has_asked]
            log.warning("channel.full", connections=len(lines), closed=len(strangers))
            for line in strangers:
                self._close(line)
        self._selector.register(connection, selectors.EVENT_READ, _Line(connection, self._max_bytes))

    def _receive(self, line: _Line) -> None:
        try:
            data = line.connection.recv(1 << 16)
            for request in line.reader.feed(data):
                write_frame(line.connection, self._answer(line, request))
        except OSError:
            data = b""
        except ValueError as error:
            log.warning("channel.unreadable", error=str(error))
            data = b""
        if not data:
            self._close(line)

    def _close(self, line: _Line) -> None:
        line.is_open = False
        self._selector.unregister(line.connection)
        line.connection.close()

    def _answer(self, line: _Line, request: Answer) -> Answer:
        attempt = self._roster.with_token(str(request.get("token")))
        handler = self._requests.get(str(request.get("ask")))
        if attempt is None or handler is None:
            return {"error": "This attempt is no longer run by this worker."}
        line.has_asked = True
        try:
            return handler(attempt, request)
        except Exception as error:  # a mistake of one attempt, or of ours, which must not cost the others theirs
            log.exception("channel.not_answered", attempt_id=str(attempt.claimed.attempt_id), ask=request["ask"])
            return {"error": f"The worker could not answer: {error}"}

    def _pull(self, attempt: HeldAttempt, request: Answer) -> Answer:
        task_id, map_index, key = str(request["task_id"]), int(request["map_index"]), str(request["key"])
        run = attempt.claimed.dag_run_id
        try:
            return {"value": transact(self._engine, lambda c: xcom.pull(c, run, task_id, map_index, key))}
        except LookupError as error:
            return {"missing": str(error.args[0])}
        except MetadataError as error:
            log.warning("xcom.not_read", attempt_id=str(attempt.claimed.attempt_id), error=str(error))
            return {"error": f"The XCom cannot be read now: {error}"}

    def _keep_return_value(self, attempt: HeldAttempt, request: Answer) -> Answer:
        attempt.return_value = str(request["value"])
        return {}

    def _note_import(self, attempt: HeldAttempt, _request: Answer) -> Answer:
        self._stopper.expect_import(attempt)
        return {}

    def _note_imported(self, attempt: HeldAttempt, _request: Answer) -> Answer:
        self._stopper.expect_end(attempt)
        return {}
