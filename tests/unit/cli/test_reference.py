"""The reference in `docs/` is written from the code."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]


def test_the_reference_is_up_to_date() -> None:
    command = [sys.executable, str(REPOSITORY / "scripts" / "make_reference.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
