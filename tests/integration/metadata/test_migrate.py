"""Migrations: they make what the models say, whoever starts them and how many at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import CheckConstraint, Engine, event, text
from sqlalchemy.schema import CreateTable

from tests.conftest import Servers
from turnout.metadata.engine import open_engine, transact
from turnout.metadata.errors import MetadataError, SchemaError
from turnout.metadata.migrate import migrate, require_current, status
from turnout.metadata.tables import metadata


@pytest.fixture
def blank(servers: Servers) -> Iterator[Engine]:
    """A database without tables."""
    servers.execute("CREATE DATABASE blank")
    engine = open_engine(servers.database("blank"), name="test", connections=4)
    yield engine
    engine.dispose()
    servers.execute("DROP DATABASE blank WITH (FORCE)")


def test_several_processes_may_migrate_at_once(blank: Engine) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(migrate, [blank] * 4))
    assert all(one.is_current for one in found)
    assert transact(blank, lambda c: c.scalar(text("SELECT slots FROM pool"))) == 128
    require_current(blank)


def test_the_migrated_tables_are_those_of_the_models(engine: Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_the_check_constraints_are_those_of_the_models(engine: Engine) -> None:
    """Alembic does not compare them, so PostgreSQL does: it writes both in its own words."""
    checks_of = text("""
        SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE contype = 'c' AND conrelid = CAST(:name AS regclass)
    """)
    with engine.connect() as connection:
        for table in metadata.tables.values():
            checks = [part for part in table.constraints if isinstance(part, CheckConstraint)]
            if not checks:
                continue
            migrated = set(connection.execute(checks_of, {"name": f"public.{table.name}"}))
            ddl = str(CreateTable(table, include_foreign_key_constraints=[]).compile(engine))
            connection.execute(text(ddl.replace("CREATE TABLE", "CREATE TEMPORARY TABLE")))
            assert migrated == set(connection.execute(checks_of, {"name": f"pg_temp.{table.name}"}))


def test_a_database_without_tables_is_refused_with_what_to_do(blank: Engine) -> None:
    with pytest.raises(
        SchemaError, match=r"has no tables yet, this version of Turnout needs .*: run `turnout db migrate`"
    ):
        require_current(blank)
    assert status(blank).current is None


def test_tables_of_another_version_are_refused(engine: Engine) -> None:
    transact(engine, lambda c: c.execute(text("UPDATE alembic_version SET version_num = '0000'")))
    with pytest.raises(SchemaError, match="has revision 0000, this version"):
        require_current(engine)


def test_tables_of_a_later_version_cannot_be_migrated(engine: Engine) -> None:
    transact(engine, lambda c: c.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(MetadataError, match="revision 9999, which this version of Turnout does not know"):
        migrate(engine)


def test_a_migration_that_fails_leaves_nothing_behind(blank: Engine) -> None:
    with blank.begin() as connection:
        connection.execute(text("CREATE TABLE xcom (a int)"))
    with pytest.raises(MetadataError, match="already exists"):
        migrate(blank)
    with blank.begin() as connection:
        assert list(
            connection.scalars(text("SELECT relname FROM pg_class WHERE relname IN ('dag', 'pool', 'xcom')"))
        ) == ["xcom"]


@pytest.mark.parametrize(("version", "number"), [("12.19 (Debian 12.19-1)", 120019), ("9.6.24", 90624)])
def test_a_server_that_is_too_old_is_refused(blank: Engine, version: str, number: int) -> None:
    pretend(blank, version, number)
    with pytest.raises(MetadataError) as caught:
        migrate(blank)
    assert str(caught.value) == f"The server is PostgreSQL {version}; Turnout needs 13 or later."


def test_a_server_of_a_coming_version_is_welcome(blank: Engine) -> None:
    pretend(blank, "19beta1", 190000)
    assert migrate(blank).server_version == "19beta1"


def pretend(engine: Engine, version: str, number: int) -> None:
    """Let the server give another version than it has."""
    answers = {"SHOW server_version": version, "SHOW server_version_num": str(number)}

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def replace(_c: Any, _u: Any, statement: str, parameters: Any, _x: Any, _m: Any) -> tuple[str, Any]:
        return (f"SELECT '{answers[statement]}'" if statement in answers else statement), parameters
