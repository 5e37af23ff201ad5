"""`turnout config` and `turnout db`."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from turnout.metadata.migrate import status

Turnout = Callable[..., Any]


def option(turnout: Turnout, section: str, key: str) -> Any:
    options = turnout("config", "show", "-o", "json").json
    return next(option for option in options if (option["section"], option["key"]) == (section, key))


def test_each_setting_says_where_it_comes_from(
    turnout: Turnout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "turnout.toml").write_text("[worker]\nconcurrency = 7\n[scheduler]\nlease_s = 3\n")
    monkeypatch.setenv("TURNOUT_SCHEDULER__LEASE_S", "5")
    assert option(turnout, "scheduler", "lease_s") == {
        "section": "scheduler",
        "key": "lease_s",
        "value": 5.0,
        "source": "environment",
        "variable": "TURNOUT_SCHEDULER__LEASE_S",
    }
    assert option(turnout, "worker", "concurrency")["source"] == "turnout.toml"
    assert option(turnout, "worker", "lease_s")["source"] == "default"
    assert option(turnout, "", "home")["source"] == "environment"


def test_defaults_are_shown_as_they_are_in_force(turnout: Turnout, tmp_path: Path) -> None:
    assert option(turnout, "", "dags_folder")["value"] == str(tmp_path / "dags")
    assert option(turnout, "", "broker_url")["value"].startswith("redis+socket://")


def test_passwords_are_never_shown(turnout: Turnout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNOUT_DATABASE_URL", "postgresql://ada:hunter2@db/turnout?password=hunter2&sslmode=require")
    monkeypatch.setenv("TURNOUT_BROKER_URL", "redis://:hunter2@broker:6379/0")
    out = turnout("config", "show").out
    assert "hunter2" not in out
    assert "postgresql://ada:***@db/turnout?password=***&sslmode=require" in out
    assert "redis://:***@broker:6379/0" in out


@pytest.mark.usefixtures("database_url")
def test_the_check_reports_database_and_broker(turnout: Turnout) -> None:
    checks = turnout("config", "check", "-o", "json").json
    assert [(check["name"], check["state"]) for check in checks] == [
        ("settings", "ok"),
        ("database", "ok"),
        ("broker", "not up"),
    ]


@pytest.mark.usefixtures("database_url")
def test_the_check_writes_to_the_log_store(turnout: Turnout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TURNOUT_LOGS_URL", f"file://{tmp_path}/store")
    assert turnout("config", "check", "-o", "json").json[-1]["detail"] == "the store takes them"
    monkeypatch.setenv("TURNOUT_LOGS_URL", "file:///dev/null/store")
    ran = turnout("config", "check")
    assert ran.code == 1
    assert "Cannot write to the log store file:///dev/null/store" in ran.err


def test_the_check_of_a_fresh_home_passes(turnout: Turnout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNOUT_DATABASE_URL")
    ran = turnout("config", "check", "-o", "json")
    assert ran.code == 0
    assert [check["state"] for check in ran.json] == ["ok", "not up", "not up"]


def test_several_processes_may_migrate_at_once(process: Turnout, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with ThreadPoolExecutor(3) as pool:
        ran = list(pool.map(lambda _: process("db", "migrate"), range(3)))
    assert [(one.code, one.err) for one in ran] == [(0, "")] * 3
    assert status(engine).is_current


def test_the_check_of_the_database_tells_the_revisions(turnout: Turnout) -> None:
    found = turnout("db", "check", "-o", "json").json
    assert found["is_current"] is True
    assert found["current"] == found["expected"]


def test_the_version_is_printed(turnout: Turnout) -> None:
    assert turnout("version").out.count(".") == 2
