"""Whatever is wrong, a person reads one clear line and a script gets the right exit code."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, make_url, text

from turnout.cli.local.servers import EmbeddedServers

Turnout = Callable[..., Any]

NOBODY_LISTENS = "127.0.0.1:1"

WRONG_URLS = {
    "sqlite:////tmp/turnout.db": "TURNOUT_DATABASE_URL has the scheme sqlite://",
    "mysql://root:hunter2@localhost/turnout": "TURNOUT_DATABASE_URL has the scheme mysql://",
    "localhost/turnout": "TURNOUT_DATABASE_URL has the scheme (none)",
    "postgresql:turnout": "TURNOUT_DATABASE_URL is no URL",
    "postgresql://root:hun@ter2@localhost/turnout": "TURNOUT_DATABASE_URL has more than one @",
    "postgresql://root:hunter2@localhost:port/turnout": "TURNOUT_DATABASE_URL is no URL",
}


def one_line(err: str) -> str:
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert "hunter2" not in err
    return err


def other_database(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


@pytest.mark.parametrize("url", WRONG_URLS)
def test_a_wrong_database_url_is_refused_as_wrong_usage(process: Turnout, url: str) -> None:
    ran = process("dags", "list", TURNOUT_DATABASE_URL=url)
    assert ran.code == 2
    assert WRONG_URLS[url] in one_line(ran.err)


def test_a_wrong_broker_url_is_refused_as_wrong_usage(process: Turnout) -> None:
    ran = process("config", "check", TURNOUT_BROKER_URL="http://:hunter2@localhost")
    assert ran.code == 2
    assert "TURNOUT_BROKER_URL has the scheme http://" in one_line(ran.err)
    ran = process("config", "check", TURNOUT_BROKER_URL="redis://localhost/0?password=hunter2")
    assert ran.code == 2
    assert "TURNOUT_BROKER_URL has its password after the ?" in one_line(ran.err)


def test_an_unknown_setting_is_refused_with_the_one_that_was_meant(process: Turnout) -> None:
    ran = process("dags", "list", TURNOUT_SCHEDULER__LEASE="5")
    assert ran.code == 2
    assert "Did you mean TURNOUT_SCHEDULER__LEASE_S?" in one_line(ran.err)


def test_a_wrong_value_of_a_setting_is_refused(process: Turnout) -> None:
    ran = process("dags", "list", TURNOUT_WORKER__CONCURRENCY="many")
    assert ran.code == 2
    assert "TURNOUT_WORKER__CONCURRENCY" in one_line(ran.err)


@pytest.mark.parametrize("command", [("dags", "list"), ("db", "check"), ("db", "migrate"), ("queues", "list")])
def test_an_unreachable_database_is_one_clear_line(process: Turnout, command: tuple[str, ...]) -> None:
    ran = process(*command, TURNOUT_DATABASE_URL=f"postgresql://root:hunter2@{NOBODY_LISTENS}/turnout")
    assert ran.code == 1
    assert "Cannot use the metadata database at postgresql://root:***@127.0.0.1:1/turnout" in one_line(ran.err)


def test_a_missing_database_is_one_clear_line(process: Turnout, database_url: str) -> None:
    ran = process("dags", "list", TURNOUT_DATABASE_URL=other_database(database_url, "turnout_nowhere"))
    assert ran.code == 1
    assert 'database "turnout_nowhere" does not exist' in one_line(ran.err)


@pytest.mark.parametrize("command", [("dags", "list"), ("db", "check"), ("dags", "pause", "orders_daily")])
def test_a_database_without_tables_is_one_clear_line(
    process: Turnout, database_url: str, command: tuple[str, ...]
) -> None:
    ran = process(*command, TURNOUT_DATABASE_URL=other_database(database_url, "postgres"))
    assert ran.code == 1
    assert "run `turnout db migrate`" in one_line(ran.err)


def test_a_wrong_password_is_one_clear_line(process: Turnout, tmp_path: Path) -> None:
    with EmbeddedServers(tmp_path / "guarded", valkey=False, durable=False) as servers:
        url = make_url(servers.database_url)
        engine = create_engine(url.set(drivername="postgresql+psycopg"))
        with engine.begin() as connection:
            connection.execute(text("CREATE ROLE guest LOGIN PASSWORD 'right'"))
            [rules] = servers.home.rglob("pg_hba.conf")
            rules.write_text(f"local all guest scram-sha-256\n{rules.read_text()}")
            connection.execute(text("SELECT pg_reload_conf()"))
        engine.dispose()
        guest = url.set(username="guest", password="hunter2").render_as_string(hide_password=False)
        ran = process("dags", "list", TURNOUT_DATABASE_URL=guest)
    assert ran.code == 1
    assert 'password authentication failed for user "guest"' in one_line(ran.err)


def test_a_home_that_is_not_up_says_how_to_bring_it_up(process: Turnout) -> None:
    ran = process("dags", "list", TURNOUT_DATABASE_URL=None)
    assert ran.code == 1
    assert "run `turnout up`" in one_line(ran.err)


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_an_unreachable_broker_is_one_clear_line(process: Turnout, scheme: str) -> None:
    ran = process("config", "check", TURNOUT_BROKER_URL=f"{scheme}://user:hunter2@{NOBODY_LISTENS}")
    assert ran.code == 1
    assert "Cannot use the message broker" in one_line(ran.err)
    assert "hunter2" not in ran.out


@pytest.mark.usefixtures("control_plane")
def test_an_unreachable_broker_leaves_the_queues_readable(process: Turnout) -> None:
    ran = process("queues", "list", "-o", "json", TURNOUT_BROKER_URL=f"redis://{NOBODY_LISTENS}")
    assert ran.code == 0
    assert [(queue["celery_queue"], queue["depth"]) for queue in ran.json] == [("default_pool.io", None)]
    assert ran.err.startswith("No depths: Cannot use the message broker")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["dags", "show", "orders_dailly"], "There is no DAG orders_dailly. Did you mean orders_daily?"),
        (["dags", "pause", "zzz"], "There is no DAG zzz. See `turnout dags list`"),
        (["dags", "trigger", "by_hnd"], "Did you mean by_hand?"),
        (["dags", "next-runs", "zzz"], "There is no DAG zzz."),
        (["runs", "list", "zzz"], "There is no DAG zzz."),
        (["runs", "show", "by_hand", "r1"], "There is no run of DAG by_hand called r1."),
        (["runs", "wait", "by_hand", "r1"], "There is no run of DAG by_hand called r1."),
        (["tasks", "list", "by_hand", "r1"], "There is no run of DAG by_hand called r1."),
        (["pools", "delete", "default_pol"], "There is no pool default_pol. Did you mean default_pool?"),
        (["dags", "test", "zzz"], "There is no DAG zzz."),
        (["dags", "test", "nowhere.py"], "nowhere.py: The file cannot be read"),
    ],
)
@pytest.mark.usefixtures("orders")
def test_what_is_not_there_is_one_clear_line(turnout: Turnout, arguments: Any, hint: str) -> None:
    ran = turnout(*arguments)
    assert ran.code == 1
    assert hint in one_line(ran.err)


@pytest.mark.parametrize(
    "arguments",
    [["dag"], ["dags", "lst"], ["dags", "show"], ["dags", "list", "--limit", "0"], ["runs", "list", "--state", "lost"]],
)
def test_a_wrong_call_exits_with_2(turnout: Turnout, arguments: Any) -> None:
    assert turnout(*arguments).code == 2


@pytest.mark.usefixtures("orders")
def test_an_interrupt_ends_a_waiting_command_without_a_traceback(turnout: Turnout, engine: Engine) -> None:
    turnout("dags", "trigger", "by_hand", "--run-id", "r1")
    command = [sys.executable, "-m", "turnout.cli.main", "runs", "wait", "by_hand", "r1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
        until_a_command_has_asked(engine)
        waiting.send_signal(signal.SIGINT)
        err = waiting.communicate()[1]
    assert (waiting.returncode, err) == (130, "")


def until_a_command_has_asked(engine: Engine) -> None:
    """Wait until a command has run a statement and is between two looks."""
    seen = text("""
        SELECT true FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'turnout cli' AND state = 'idle'
    """)
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        with engine.connect() as connection:
            if connection.scalar(seen):
                return
    raise AssertionError("no command came")
