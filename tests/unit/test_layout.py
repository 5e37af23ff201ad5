"""The tree is the architecture: what `pyproject.toml` says of it is true."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS = ("cli", "config", "executor", "metadata", "scheduler", "tasks")


def sources(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def imported(paths: list[Path]) -> set[str]:
    """Name the top-level modules that some files import, wherever in them."""
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text()))]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.partition(".")[0] for name in names}


def distributions_of(paths: list[Path]) -> set[str]:
    """Name what has to be installed for some files to be imported."""
    return {INSTALLED[name][0].lower() for name in imported(paths) - {"turnout"} if name in INSTALLED}


def required(lines: list[str]) -> set[str]:
    return {re.split(r"[\[<>=]", line)[0].lower() for line in lines}


DECLARED = required(PROJECT["project"]["dependencies"])
INSTALLED = packages_distributions()


def test_the_listed_packages_are_the_folders_of_the_tree() -> None:
    folders = {path.parent.relative_to(ROOT) for path in sources(*ROOMS, "examples")}
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(
        ".".join(("turnout", *folder.parts)) for folder in folders
    )


def test_every_package_says_that_it_is_typed() -> None:
    assert [room for room in ROOMS if not (ROOT / room / "py.typed").exists()] == []


def test_arrows_point_downwards() -> None:
    # A process of its own: import-linter puts what it finds on sys.path and keeps what it has parsed.
    program = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_is_imported_is_declared() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert distributions_of(sources(*ROOMS)) - DECLARED == required(extras["notify"])
    every = required([line for lines in extras.values() for line in lines])
    assert distributions_of(sources("tests")) - DECLARED - every == set()


def test_what_is_declared_is_imported() -> None:
    # Flower is a program beside us, redis is kombu's transport, and tzdata is what zoneinfo reads.
    assert DECLARED - distributions_of(sources(*ROOMS)) == {"flower", "redis", "tzdata"}


def test_the_page_of_dependencies_names_every_one_of_them_once() -> None:
    page = (ROOT / "docs" / "reference" / "dependencies.md").read_text()
    extras = PROJECT["project"]["optional-dependencies"].values()
    declared = DECLARED | required([line for lines in extras for line in lines]) - {"turnout"}
    assert sorted(re.findall(r"^\| `(.+?)` \| \S", page, re.MULTILINE)) == sorted(declared)
