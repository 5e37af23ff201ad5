import io
import json
import logging
import warnings
from collections.abc import Iterator

import pytest
import structlog

from turnout.config.logging import configure_logging
from turnout.config.settings import LogSettings


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    with warnings.catch_warnings():
        yield
        logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def _logged(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_both_kinds_of_loggers_write_the_same_json_with_the_ids_bound_once() -> None:
    stream = io.StringIO()
    configure_logging(LogSettings(format="json"), process="scheduler", stream=stream, scheduler_id="s1")
    structlog.get_logger("turnout.scheduler").info("attempt.claimed", count=12)
    logging.getLogger("somebody").warning("lost %d", 3)
    ours, theirs = _logged(stream)
    assert {
        "process": "scheduler",
        "scheduler_id": "s1",
        "event": "attempt.claimed",
        "count": 12,
    }.items() <= ours.items()
    assert {
        "process": "scheduler",
        "scheduler_id": "s1",
        "event": "lost 3",
        "level": "warning",
    }.items() <= theirs.items()
    assert {"logger", "level", "timestamp"} <= ours.keys() & theirs.keys()


def test_a_stream_that_is_no_terminal_gets_json() -> None:
    stream = io.StringIO()
    configure_logging(LogSettings(), process="worker", stream=stream)
    structlog.get_logger().info("ready")
    assert _logged(stream)[0]["event"] == "ready"


def test_text_is_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    stream = io.StringIO()
    configure_logging(LogSettings(format="text"), process="worker", stream=stream)
    structlog.get_logger("turnout.worker").info("attempt.claimed", count=2)
    assert stream.getvalue().rstrip().endswith("[info] attempt.claimed [turnout.worker] count=2")


def test_less_than_the_level_is_not_printed_and_chatty_libraries_are_quiet() -> None:
    stream = io.StringIO()
    configure_logging(LogSettings(format="json", level="info"), process="worker", stream=stream)
    structlog.get_logger().debug("no")
    logging.getLogger("somebody").debug("no")
    logging.getLogger("kombu.transport").info("no")
    logging.getLogger("somebody").info("yes")
    assert [line["event"] for line in _logged(stream)] == ["yes"]


def test_an_exception_is_one_line_of_json() -> None:
    stream = io.StringIO()
    configure_logging(LogSettings(format="json"), process="worker", stream=stream)
    try:
        int("bad")
    except ValueError:
        structlog.get_logger().exception("step.failed")
        logging.getLogger("somebody").exception("step.failed")
    assert all("ValueError: invalid literal" in str(line["exception"]) for line in _logged(stream))


def test_setting_it_up_again_does_not_print_twice() -> None:
    stream = io.StringIO()
    for _ in range(2):
        configure_logging(LogSettings(format="json"), process="worker", stream=stream)
    logging.getLogger("somebody").warning("once")
    assert len(_logged(stream)) == 1
