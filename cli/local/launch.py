"""Become another program that ends when its parent does.

Run as a script, instead of in a `preexec_fn`: after a fork in a process with threads, Python code may deadlock.
It drops root first, because a change of user clears the death signal.

The kernel sends the signal when the *thread* that spawned us ends: start long-lived processes from the main thread.
"""

import ctypes
import os
import signal
import sys

#: From <linux/prctl.h>.
PR_SET_PDEATHSIG = 1


def launch_command(command: list[str], death_signal: signal.Signals, uid: int, gid: int) -> list[str]:
    """Write the command line that has `command` run by a user and sent `death_signal` when this process ends."""
    numbers = (death_signal.value, uid, gid, os.getpid())
    return [sys.executable, "-I", "-S", __file__, *map(str, numbers), *command]


def launch(death_signal: int, uid: int, gid: int, parent: int, command: list[str]) -> None:
    """Replace this process by `command`, run by the given user, sent `death_signal` when `parent` ends."""
    if os.geteuid() != uid:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("The parent has gone.")
    # A program inherits what is ignored: by Python, by a shell's `&`, by whoever started us.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], command)  # noqa: S606  a command of ours, no shell
    except OSError as error:
        sys.exit(f"Cannot run {command[0]}: {error.strerror}.")


if __name__ == "__main__":
    _signal, _uid, _gid, _parent = map(int, sys.argv[1:5])
    launch(_signal, _uid, _gid, _parent, sys.argv[5:])
