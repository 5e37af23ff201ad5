from pathlib import Path

import pytest

from turnout.cli.local.machine import child_environment, machine_specs
from turnout.config.settings import Settings, load_settings


def _settings(**variables: str) -> Settings:
    return load_settings({"TURNOUT_HOME": "/home/ada/turnout", **variables})


def test_a_machine_runs_schedulers_workers_and_one_processor() -> None:
    specs = {spec.name: spec.command[4:] for spec in machine_specs(workers=2, schedulers=2)}
    assert specs == {
        "scheduler-1": ("scheduler", "--name", "scheduler-1"),
        "scheduler-2": ("scheduler", "--name", "scheduler-2"),
        "worker-1": ("worker", "--name", "worker-1"),
        "worker-2": ("worker", "--name", "worker-2"),
        "dag-processor": ("dag-processor", "--name", "dag-processor"),
    }


def test_the_processes_are_told_the_home_and_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMETHING_OF_THE_USER", "kept")
    broker = "amqp://user:secret@broker"
    environment = child_environment(_settings(TURNOUT_BROKER_URL=broker))
    assert load_settings({k: v for k, v in environment.items() if k.startswith("TURNOUT_")}).home == Path(
        "/home/ada/turnout"
    )
    assert environment["TURNOUT_DATABASE_URL"] == "postgresql://turnout@/turnout?host=/home/ada/turnout/servers"
    assert environment["TURNOUT_BROKER_URL"] == broker
    assert environment["SOMETHING_OF_THE_USER"] == "kept"


def test_the_processes_log_for_people_unless_json_was_asked_for() -> None:
    assert child_environment(_settings())["TURNOUT_LOG__FORMAT"] == "text"
    assert child_environment(_settings(TURNOUT_LOG__FORMAT="json"))["TURNOUT_LOG__FORMAT"] == "json"


def test_the_processes_are_told_the_store_of_logs_also_when_the_environment_no_longer_says_it() -> None:
    assert "TURNOUT_LOGS_URL" not in child_environment(_settings())
    environment = child_environment(_settings(TURNOUT_LOGS_URL="s3://key:secret@bucket"))
    assert environment["TURNOUT_LOGS_URL"] == "s3://key:secret@bucket"
