"""Credentials in the environment of a process."""

import os
import subprocess
import sys

CODE = """
import os, subprocess
from pathlib import Path
from turnout.config.credentials import hide_credentials
os.environ["TURNOUT_BROKER_URL"] = "redis://:given-later@broker"
hide_credentials()
hide_credentials()
print(Path("/proc/self/environ").read_text())
print(subprocess.run(["env"], check=True, capture_output=True, text=True).stdout)
print(os.environ.get("TURNOUT_DATABASE_URL"), os.environ.get("TURNOUT_BROKER_URL"))
"""


def test_hidden_credentials_are_neither_inherited_nor_shown_to_others() -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("TURNOUT_")}
    variables = {"TURNOUT_DATABASE_URL": "postgresql://ada:secret@db/x", "TURNOUT_HOME": "/home/ada"}
    found = subprocess.run(
        [sys.executable, "-c", CODE], env=own | variables, check=True, capture_output=True, text=True
    ).stdout
    assert found.count("TURNOUT_HOME=/home/ada") == 2
    assert "secret" not in found
    assert "given-later" not in found
    assert found.endswith("None None\n")
