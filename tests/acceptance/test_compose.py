"""`compose/compose.yaml`: no Docker is needed to see that its services are ours, complete, and work together."""

import os
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Servers
from turnout.cli.main import root
from turnout.config.settings import load_settings

Eventually = Callable[..., Any]

COMPOSE = Path(__file__).parents[2] / "compose"
TEXT = (COMPOSE / "compose.yaml").read_text()


def interpolated(text: str) -> str:
    """Fill in variables as Docker Compose does: those that must be set with a password, others with their default."""
    text = re.sub(r"(?<!\$)\$\{\w+:\?\}", lambda _: secrets.token_hex(8), text)
    return re.sub(r"(?<!\$)\$\{\w+:-([^}]*)\}", r"\1", text).replace("$$", "$")


SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(interpolated(TEXT))["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]

DAG_FILE = """
from turnout.tasks import dag, task


@dag(schedule=None, is_paused_upon_creation=False)
def composed():
    @task
    def small():
        return 1

    @task(queue="heavy")
    def large(number):
        return number + 1

    large(small())


composed()
"""


class Host:
    """This machine in the place of Docker: runs the commands of the services, with their environment."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        own = {name: value for name, value in os.environ.items() if not name.startswith("TURNOUT_")}
        self.environ = own | {"PATH": path} | variables
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = str(server.getsockname()[1])  # for Flower
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """Start a service, with the environment of the file but the servers, the home and the port of this test."""
        command = [word.replace("5555", self.port) for word in SERVICES[name]["command"]]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    ["turnout", *command],
                    env=SERVICES[name]["environment"] | self.environ,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                )
            )
        return self.processes[-1]

    def is_healthy(self, name: str) -> bool:
        """Run the health check of a service."""
        kind, *command = SERVICES[name]["healthcheck"]["test"]
        assert kind == "CMD"
        return self.run(*(word.replace("5555", self.port) for word in command)).returncode == 0

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command as in a container."""
        return subprocess.run(
            command, env=self.environ, cwd=self.folder, capture_output=True, text=True, timeout=100, check=False
        )


@pytest.fixture
def host(servers: Servers, broker_url: str, tmp_path: Path) -> Iterator[Host]:
    name = f"compose_{os.getpid()}"
    servers.execute(f"CREATE DATABASE {name}")
    (tmp_path / "dags").mkdir()
    host = Host(
        tmp_path,
        TURNOUT_HOME=str(tmp_path),
        TURNOUT_DATABASE_URL=servers.database(name),
        TURNOUT_BROKER_URL=broker_url,
        TURNOUT_SCHEDULER__LEASE_S="3",
        TURNOUT_WORKER__LEASE_S="3",
    )
    yield host
    for process in host.processes:
        process.terminate()
    for process in host.processes:
        process.wait(60)
    servers.execute(f"DROP DATABASE {name} WITH (FORCE)")


def dependencies(name: str) -> dict[str, dict[str, str]]:
    return SERVICES[name].get("depends_on", {})


def in_order() -> list[str]:
    """List the services, each behind those that it depends on."""
    return list(TopologicalSorter({name: dependencies(name) for name in SERVICES}).static_order())


def conditions(name: str) -> set[str]:
    """How others wait for a service."""
    return {dependencies(other)[name]["condition"] for other in SERVICES if name in dependencies(other)}


def test_the_platform_is_all_there() -> None:
    commands = [SERVICES[name]["command"] for name in OURS]
    assert sorted(command[0] for command in commands) == [
        "dag-processor",
        "db",
        "flower",
        "scheduler",
        "scheduler",
        "worker",
        "worker",
    ]
    queues = {command[command.index("--queues") + 1] for command in commands if "--queues" in command}
    assert queues == {"default", "heavy"}
    assert sorted(set(SERVICES) - set(OURS)) == ["postgres", "valkey"]


def test_every_password_has_to_be_set_and_only_this_host_reaches_the_pages() -> None:
    defaults = set(re.findall(r"\$\{(\w+):-", TEXT))
    assert set(re.findall(r"\$\{(\w*PASSWORD):\?\}", TEXT)) == {
        "FLOWER_PASSWORD",
        "POSTGRES_PASSWORD",
        "VALKEY_PASSWORD",
    }
    assert defaults == {"DAGS_FOLDER"}
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"flower": ["127.0.0.1:5555:5555"]}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_complete(name: str) -> None:
    service = SERVICES[name]
    assert service["image"]
    one_shot = "service_completed_successfully" in conditions(name)
    assert bool(service.get("healthcheck", {}).get("test")) is not one_shot
    assert set(dependencies(name)) <= set(SERVICES)


def test_no_service_waits_for_itself() -> None:
    assert len(in_order()) == len(SERVICES)


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_a_command_that_there_is_with_settings_that_are_valid(name: str) -> None:
    assert SERVICES[name]["command"][0] in root().commands
    assert load_settings(SERVICES[name]["environment"]).broker_url is not None


def test_the_image_has_every_room_and_no_root() -> None:
    lines = (COMPOSE / "Dockerfile").read_text().splitlines()
    for room in ("cli", "config", "examples", "executor", "metadata", "scheduler", "tasks"):
        assert f"COPY {room} {room}" in lines
    assert [line for line in lines if line.startswith("USER")] == ["USER turnout"]


@pytest.mark.timeout(300)
def test_a_run_goes_through_services_started_in_the_order_of_their_dependencies(
    host: Host, eventually: Eventually
) -> None:
    (host.folder / "dags" / "composed.py").write_text(DAG_FILE)
    order = [name for name in in_order() if name in OURS]
    assert not host.is_healthy("scheduler-1")
    for name in order:
        process = host.start(name)
        if "service_completed_successfully" in conditions(name):
            assert process.wait(60) == 0
    checked = [name for name in order if "healthcheck" in SERVICES[name]]
    for name in checked:
        eventually(lambda name=name: host.is_healthy(name))
    eventually(lambda: host.run("turnout", "dags", "show", "composed").returncode == 0)
    triggered = host.run("turnout", "dags", "trigger", "composed", "--wait")
    assert triggered.returncode == 0, triggered.stderr
    assert all(process.poll() in (None, 0) for process in host.processes)

    for process in host.processes:
        process.kill()
    for name in checked:
        eventually(lambda name=name: not host.is_healthy(name))
