"""The credentials in the environment of a process, and who must not find them there."""

import ctypes
import os

from turnout.config.settings import SECRET_VARIABLES


def hide_credentials() -> None:
    """Take the URLs with passwords out of the environment of this process, once its settings are read.

    What it starts afterwards does not inherit them. They are also overwritten where they lie: `/proc/<pid>/environ`
    shows that memory to every process of the same user for as long as this one lives, and to those that it forks as
    their own.
    """
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    for name in SECRET_VARIABLES:
        address = getenv(name.encode())
        if address is not None:
            ctypes.memset(address, 0, len(ctypes.string_at(address)))
        os.environ.pop(name, None)
