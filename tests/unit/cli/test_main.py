"""The root of the command line."""

import subprocess
import sys

import pytest

from turnout.cli.commands import LazyCommand
from turnout.cli.main import COMMANDS, main, root

#: What takes long to import, and what `--help` must therefore not wait for.
HEAVY = ("sqlalchemy", "psycopg", "alembic", "celery", "kombu", "pydantic", "rich", "structlog", "croniter")
PRINT_LOADED = f"""
import sys
sys.argv = ["turnout", "--help"]
from turnout.cli.main import main
try:
    main()
except SystemExit:
    print(sorted(set({HEAVY!r}) & sys.modules.keys()))
"""


def test_help_imports_nothing_heavy() -> None:
    ran = subprocess.run([sys.executable, "-c", PRINT_LOADED], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
    assert "dags" in ran.stdout


@pytest.mark.parametrize("entry", root().commands.values(), ids=lambda entry: entry.name)
def test_every_command_of_the_table_is_there_and_has_help(entry: LazyCommand) -> None:
    command = entry.load()
    assert command.name == entry.name
    assert command.help
    assert all(member.help for member in getattr(command, "commands", {}).values())


@pytest.mark.parametrize("summary", [summary for _, _, summary in COMMANDS])
def test_the_summaries_fit_an_ordinary_terminal(summary: str) -> None:
    assert len(summary) <= 58


def test_help_of_a_group_lists_its_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["turnout", "pools", "--help"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    assert "List, set and delete pools." in capsys.readouterr().out
