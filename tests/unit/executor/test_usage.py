"""What processes use, whatever they call themselves."""

import subprocess
import sys

from turnout.executor.usage import usage_of

#: Names itself by bytes that are no UTF-8, as a program does whose long name the kernel cuts within a character.
_ODD_NAME = "import ctypes; ctypes.CDLL(None).prctl(15, b'\\xff) \\xc3 R'); print('named', flush=True); input()"


def test_a_process_may_have_any_name() -> None:
    with subprocess.Popen([sys.executable, "-c", _ODD_NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"named\n"
        assert usage_of(process.pid).memory_bytes > 1 << 20
        process.communicate(b"\n")


def test_a_process_that_has_ended_uses_nothing() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert usage_of(process.pid).memory_bytes == 0
