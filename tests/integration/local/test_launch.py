import os
import signal
import subprocess
import sys

import psutil
import pytest

from turnout.cli.local.child import Child, ProcessSpec
from turnout.cli.local.launch import launch_command
from turnout.cli.local.lines import LONGEST_LINE

from .conftest import PlainUser

ME = (os.geteuid(), os.getegid())


def test_a_program_run_as_another_user_keeps_none_of_roots_groups(nobody: PlainUser) -> None:
    command = launch_command(["/bin/cat", "/proc/self/status"], signal.SIGTERM, nobody.uid, nobody.uid)
    status = subprocess.check_output(command, text=True, extra_groups=[0, 4])
    ids = "\t".join([str(nobody.uid)] * 4)
    assert f"Uid:\t{ids}\nGid:\t{ids}\n" in status
    assert "\nGroups:\t \n" in status


def test_a_program_starts_with_the_signals_of_a_fresh_process() -> None:
    command = launch_command(["/bin/cat", "/proc/self/status"], signal.SIGTERM, *ME)
    status = subprocess.check_output(command, text=True)
    ignored = int(status.split("SigIgn:")[1].split()[0], 16)
    # The C library keeps two signals to itself, which no program may set; a parent may have left them ignored.
    assert [number for number in signal.valid_signals() if ignored >> number - 1 & 1] == []


def test_a_program_does_not_start_when_its_parent_has_gone() -> None:
    command = launch_command(["/bin/echo", "started"], signal.SIGTERM, *ME)
    orphan = ["/bin/sh", "-c", '"$@"; true', "sh", *command]
    done = subprocess.run(orphan, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "The parent has gone.\n")


def test_a_program_that_cannot_be_run_is_named() -> None:
    done = subprocess.run(
        launch_command(["/no/such/program"], signal.SIGTERM, *ME), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "Cannot run /no/such/program: No such file or directory.\n")


@pytest.mark.parametrize("size", [10, LONGEST_LINE - 10])
def test_the_last_output_of_a_process_that_has_ended_is_not_lost(size: int) -> None:
    child = Child(ProcessSpec("one", (sys.executable, "-c", f"print('x' * {size}, end='')")), {})
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
    assert child.reap() == 0
    assert child.last_lines() == ["x" * size]
