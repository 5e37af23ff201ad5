"""Transactions: what passes is tried again, what does not is said in one line."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import psycopg
import pytest
from sqlalchemy import Connection, Engine, make_url, text

from tests.conftest import Servers
from turnout.metadata import engine as engines
from turnout.metadata.engine import MAX_TRIES, open_engine, transact
from turnout.metadata.errors import DatabaseUnavailableError, MetadataError, SchemaError

INSERT = text("INSERT INTO pool (name, slots) VALUES (:name, 1)")


def test_a_deadlock_is_tried_again_until_both_have_their_way(engine: Engine) -> None:
    with engine.begin() as connection:
        for name in ("left", "right"):
            connection.execute(INSERT, {"name": name})
    both_hold_one = Barrier(2)
    runs: list[str] = []

    def add(connection: Connection, first: str, second: str) -> None:
        runs.append(first)
        for name in (first, second):
            connection.execute(text("UPDATE pool SET slots = slots + 1 WHERE name = :name"), {"name": name})
            if name == first and len(runs) <= 2:
                both_hold_one.wait(10)

    with ThreadPoolExecutor(2) as threads:
        futures = [
            threads.submit(transact, engine, lambda c: add(c, "left", "right")),
            threads.submit(transact, engine, lambda c: add(c, "right", "left")),
        ]
        for future in futures:
            future.result(30)
    assert len(runs) == 3
    with engine.begin() as connection:
        assert list(connection.scalars(text("SELECT slots FROM pool WHERE name <> 'default_pool'"))) == [3, 3]


def test_a_conflict_that_does_not_pass_is_reported_in_the_end(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_back_off", lambda _: None)
    tries = []

    def collide(connection: Connection) -> None:
        tries.append(connection)
        connection.execute(text("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"))

    with pytest.raises(MetadataError, match="refused a statement"):
        transact(engine, collide)
    assert len(tries) == MAX_TRIES


def test_a_connection_lost_on_the_last_try_is_an_outage(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_back_off", lambda _: None)
    tries = []

    def fail(connection: Connection) -> None:
        tries.append(connection)
        connection.execute(text("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$") if len(tries) < MAX_TRIES else END)

    with pytest.raises(DatabaseUnavailableError):
        transact(engine, fail)


END = text("SELECT pg_terminate_backend(pg_backend_pid())")


def test_a_lost_connection_is_replaced_once(engine: Engine) -> None:
    seen = []

    def work(connection: Connection) -> str:
        seen.append(connection.scalar(text("SELECT pg_backend_pid()")))
        if len(seen) == 1:
            connection.execute(END)
        connection.execute(INSERT, {"name": "once"})
        return "done"

    assert transact(engine, work) == "done"
    assert len(set(seen)) == 2


def test_a_connection_that_is_lost_again_and_again_is_an_outage(engine: Engine) -> None:
    tries = []

    def work(connection: Connection) -> None:
        tries.append(connection)
        connection.execute(END)

    with pytest.raises(DatabaseUnavailableError, match="terminating connection"):
        transact(engine, work)
    assert len(tries) == 2


def test_a_connection_that_died_while_it_was_idle_goes_unnoticed(engine: Engine) -> None:
    pid = transact(engine, lambda c: c.scalar(text("SELECT pg_backend_pid()")))
    other = open_engine(engine.url.render_as_string(hide_password=False), name="other")
    transact(other, lambda c: c.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid}))
    other.dispose()
    assert transact(engine, lambda c: c.scalar(text("SELECT 1"))) == 1


def test_an_unreachable_server_is_said_in_one_line_without_the_password(tmp_path: object) -> None:
    engine = open_engine(f"postgresql://joe:s3cret@/db?host={tmp_path}", name="test")
    with pytest.raises(DatabaseUnavailableError) as caught:
        transact(engine, lambda c: c.scalar(text("SELECT 1")))
    message = str(caught.value)
    assert message.startswith("Cannot use the metadata database at postgresql://joe:***@/db")
    assert "TURNOUT_DATABASE_URL" in message
    assert "\n" not in message
    assert "s3cret" not in message


def test_a_database_without_tables_is_a_matter_of_the_schema(servers: Servers) -> None:
    engine = open_engine(servers.database_url, name="test")
    for statement in ("SELECT 1 FROM no_such_table", "SELECT no_such_column FROM pg_class"):
        with pytest.raises(SchemaError, match="run `turnout db migrate`"):
            transact(engine, partial(Connection.scalar, statement=text(statement)))
    engine.dispose()


def test_a_refused_statement_is_undone_and_said_in_one_line(engine: Engine) -> None:
    def work(connection: Connection) -> None:
        connection.execute(INSERT, {"name": "new"})
        connection.execute(INSERT, {"name": "default_pool"})

    with pytest.raises(MetadataError, match=r"^The metadata database refused a statement: duplicate key .*$"):
        transact(engine, work)
    assert transact(engine, lambda c: c.scalar(text("SELECT count(*) FROM pool"))) == 1


def test_the_server_ends_a_transaction_that_sleeps_too_long(database_url: str) -> None:
    engine = open_engine(database_url, name="test", idle_in_transaction_s=0.05)
    connection = engine.raw_connection()
    driver = connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute("SELECT 1")
    with pytest.raises(psycopg.Error):  # the good-bye of the server, or the end of the connection after it
        next(driver.notifies(timeout=30))
    assert driver.closed
    engine.dispose()


def test_an_engine_is_named_for_people_and_speaks_utc(database_url: str) -> None:
    for scheme in ("postgresql", "postgresql+psycopg"):
        engine = open_engine(make_url(database_url).set(drivername=scheme).render_as_string(False), name="scheduler x")
        shown = transact(engine, lambda c: c.scalar(text("SHOW application_name")))
        assert (shown, transact(engine, lambda c: c.scalar(text("SHOW timezone")))) == ("turnout scheduler x", "UTC")
        engine.dispose()


def test_a_text_that_is_no_utf8_is_refused_like_any_other(engine: Engine) -> None:
    with pytest.raises(MetadataError, match="half of a surrogate pair"):
        transact(engine, lambda c: c.execute(INSERT, {"name": "\udcff"}))
