"""A DAG processor on a throwaway folder, with real child processes and a real database."""

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from turnout.config.settings import Settings
from turnout.scheduler.processor.service import DagProcessor

#: Nothing that a test expects to succeed takes so long; a file that hangs costs the test all of it.
IMPORT_TIMEOUT_S = 5


@dataclass(frozen=True)
class Folder:
    """The DAGs folder of a test."""

    path: Path

    def write(self, name: str, source: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("from turnout.tasks import DAG, BashOperator, EmptyOperator\n" + textwrap.dedent(source))
        return path

    def write_dag(self, name: str, dag_id: str, arguments: str = "schedule=None", tail: str = "") -> Path:
        source = f"with DAG({dag_id!r}, {arguments}):\n    BashOperator(task_id='t', bash_command='true')\n"
        return self.write(name, source + tail)


@dataclass(frozen=True)
class Database:
    """The database as the tests look at it."""

    engine: Engine

    def rows(self, statement: str, **values: Any) -> list[Any]:
        with self.engine.begin() as connection:
            return [tuple(row) for row in connection.execute(text(statement), values)]

    def execute(self, statement: str, **values: Any) -> None:
        with self.engine.begin() as connection:
            connection.execute(text(statement), values)

    def active(self) -> list[str]:
        return [dag_id for (dag_id,) in self.rows("SELECT dag_id FROM dag WHERE is_active ORDER BY dag_id")]

    def errors(self) -> dict[str, tuple[int | None, str]]:
        rows = self.rows("SELECT file_path, line, message FROM import_error")
        return {file: (line, message) for file, line, message in rows}

    def versions(self, dag_id: str) -> list[int]:
        statement = "SELECT version_number FROM dag_version WHERE dag_id = :dag_id ORDER BY version_number"
        return [number for (number,) in self.rows(statement, dag_id=dag_id)]

    def current_version(self, dag_id: str) -> int:
        ((number,),) = self.rows(
            "SELECT version_number FROM dag d JOIN dag_version v ON v.id = d.current_version_id "
            "WHERE d.dag_id = :dag_id",
            dag_id=dag_id,
        )
        return int(number)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    path = tmp_path / "dags"
    path.mkdir()
    return Folder(path)


@pytest.fixture
def database(engine: Engine) -> Database:
    return Database(engine)


@pytest.fixture
def settings(folder: Folder, tmp_path: Path, database_url: str) -> Settings:
    return Settings.model_validate(
        {
            "home": tmp_path,
            "dags_folder": folder.path,
            "database_url": database_url,
            "processor": {"import_timeout_s": IMPORT_TIMEOUT_S, "parallel": 2},
        }
    )


@pytest.fixture
def make_processor(settings: Settings) -> Iterator[Callable[..., DagProcessor]]:
    made: list[DagProcessor] = []

    def make(**changes: Any) -> DagProcessor:
        made.append(DagProcessor(Settings.model_validate({**settings.model_dump(), **changes})))
        return made[-1]

    yield make
    for processor in made:
        processor.stop()


@pytest.fixture
def processor(make_processor: Callable[..., DagProcessor]) -> DagProcessor:
    return make_processor()
