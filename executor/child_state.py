"""The state of a child process that user code may change; it is put back, so that the next attempt finds it as it was.

What imported modules keep is theirs, and so is `sys.path`: it is there for the next attempt, as in any process that
runs several tasks.
"""

import faulthandler
import gc
import locale
import os
import resource
import signal
import socket
import sys
import threading
import warnings
from contextlib import suppress

from turnout.executor import masked_pipe

#: Those that programs use; asking for all 62 would take as long as all the rest.
_SIGNALS = [
    getattr(signal, f"SIG{name}")
    for name in [
        "TERM",
        "INT",
        "HUP",
        "QUIT",
        "USR1",
        "USR2",
        "ALRM",
        "VTALRM",
        "PROF",
        "CHLD",
        "PIPE",
        "XCPU",
        "XFSZ",
        "WINCH",
        "TSTP",
        "CONT",
    ]
]
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


class ChildState:
    """A snapshot of this process, taken when an attempt begins."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._folder = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # readable or not
        self._environ, self._variables = os.environ, dict(os.environ)
        self._umask = os.umask(0)
        os.umask(self._umask)
        self._handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        self._locale = locale.setlocale(locale.LC_ALL)
        self._limits = {limit: resource.getrlimit(limit) for limit in _LIMITS}
        self._niceness = os.getpriority(os.PRIO_PROCESS, 0)
        self._argv = list(sys.argv)
        self._recursion = sys.getrecursionlimit()
        self._collects = gc.isenabled()
        self._warnings = list(warnings.filters)
        self._socket_timeout = socket.getdefaulttimeout()
        self._threads = set(threading.enumerate())

    def end_copy(self) -> None:
        """End this process if it is a copy that user code has forked and returned in: it has nothing to report."""
        if os.getpid() != self._pid:
            os._exit(0)

    def restore(self) -> None:
        """Put everything back; once.

        Raises:
            Exception: something cannot be put back, so that nothing else should run in this process.
        """
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        for number, handler in self._handlers.items():
            if handler is not None and signal.getsignal(number) != handler:
                signal.signal(number, handler)
        for number in signal.sigpending() - self._blocked:  # held up until now, and nobody's any more
            signal.sigtimedwait([number], 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
        with suppress(OSError):  # it may have closed that, too
            os.fchdir(self._folder)
            os.close(self._folder)
        os.umask(self._umask)
        os.environ = self._environ  # noqa: B003  the very object, which writes through to the process
        if os.environ != self._variables:
            os.environ.clear()
            os.environ.update(self._variables)
        if locale.setlocale(locale.LC_ALL) != self._locale:
            locale.setlocale(locale.LC_ALL, self._locale)
        for limit, values in self._limits.items():
            if resource.getrlimit(limit) != values:
                with suppress(ValueError, OSError):  # a hard limit that was lowered stays so, unless we are root
                    resource.setrlimit(limit, values)
        if os.getpriority(os.PRIO_PROCESS, 0) != self._niceness:
            os.setpriority(os.PRIO_PROCESS, 0, self._niceness)
        sys.argv = self._argv
        sys.setrecursionlimit(self._recursion)
        (gc.enable if self._collects else gc.disable)()
        warnings.filters[:] = self._warnings  # type: ignore[index]  # a list, in every version
        socket.setdefaulttimeout(self._socket_timeout)
        faulthandler.cancel_dump_traceback_later()

    def threads_left(self) -> list[str]:
        """Name the threads that the attempt has left running."""
        names = {thread.name for thread in set(threading.enumerate()) - self._threads}
        return sorted(names - {masked_pipe.THREAD_NAME})
