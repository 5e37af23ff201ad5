"""`turnout flower`: Flower on our broker, over its HTTP API."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.flower import LOG_IN, Pages
from tests.platform import Platform

Eventually = Callable[..., Any]


@pytest.fixture
def pages(platform: Platform, broker_url: str) -> Pages:
    return Pages(platform, broker_url)


@pytest.fixture
def flower(pages: Pages, eventually: Eventually) -> Iterator[subprocess.Popen[str]]:
    process = pages.start(FLOWER_BASIC_AUTH=LOG_IN)
    eventually(lambda: pages.answer("/healthcheck") == (200, "OK"))
    yield process
    process.kill()
    process.communicate()


def test_flower_shows_the_worker_and_each_task_by_its_name_with_its_run(
    flower: subprocess.Popen[str], pages: Pages, platform: Platform, eventually: Eventually
) -> None:
    platform.declare("scripted.py", small=1)
    platform.start("scheduler", "scheduler-1")
    platform.start("worker", "worker-1", "-q", "default,gpu", "-c", "2")
    # Flower hears of what happens from now on: it has to know the worker before the first task.
    eventually(lambda: [name for name in pages.json("/api/workers?refresh=1") if name.startswith("worker-1@")])

    run_id = platform.trigger("scripted", {"*": ["succeed"]}, pids="/dev/null", command="true")
    eventually(lambda: platform.run_state(run_id) == "success")

    def ended() -> dict[str, dict[str, Any]]:
        tasks = pages.json("/api/tasks").values()
        return {task["name"]: task for task in tasks if task["state"] == "SUCCESS"}

    eventually(lambda: len(ended()) == 8)
    task = ended()["scripted.one"]
    attempt = platform.scalar("SELECT attempt_id FROM task_instance WHERE task_id = 'one'")
    assert (task["uuid"], task["args"]) == (str(attempt), f"('{run_id}',)")

    flower.send_signal(signal.SIGTERM)
    assert flower.wait(30) == 0


@pytest.mark.usefixtures("flower")
def test_the_pages_ask_for_the_password_and_change_nothing(pages: Pages) -> None:
    assert pages.answer("/workers", log_in="someone:else")[0] == 401
    assert pages.answer("/workers")[0] == 200
    assert pages.answer("/api/worker/shutdown/any", method="POST") == (403, "Read only mode is enabled")


@pytest.mark.usefixtures("flower")
def test_a_port_in_use_is_one_clear_line(pages: Pages) -> None:
    said = pages.refusal()
    assert said.startswith(f"Error: Flower cannot listen on 127.0.0.1, port {pages.port}: Address already in use.")


def test_a_broker_that_cannot_be_reached_is_one_clear_line(pages: Pages) -> None:
    said = pages.refusal(TURNOUT_BROKER_URL="redis://:hidden@127.0.0.1:1/0")
    assert said.startswith("Error: Cannot use the message broker at redis://")
    assert "hidden" not in said


def test_other_machines_see_nothing_without_a_password(pages: Pages) -> None:
    assert "FLOWER_BASIC_AUTH" in pages.refusal("--address", "0.0.0.0")  # noqa: S104  it is refused
