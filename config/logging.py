"""How every process logs: text for people, JSON lines for programs, one renderer for ours and everybody else's."""

import logging
import os
import sys
from collections.abc import Iterable
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from turnout.config.settings import LogSettings

#: Libraries whose `info` tells nothing to whoever runs a platform.
CHATTY = ("alembic", "amqp", "asyncio", "celery", "kombu", "watchfiles")


def configure_logging(settings: LogSettings, *, process: str, stream: TextIO | None = None, **ids: str) -> None:
    """Set up structlog and the standard library's logging in this process.

    Args:
        settings: level and format.
        process: what this process is, for example `scheduler`; part of every JSON line.
        stream: where to log; standard error by default.
        ids: more that every line is to carry, such as the id of the scheduler.
    """
    stream = stream or sys.stderr
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    as_text = settings.format == "text" or (settings.format == "auto" and stream.isatty())
    # Text stands behind the name of its process already, or alone in its terminal.
    bound = ids if as_text else {"process": process, **ids}
    shared = _shared_processors(bound, as_text=as_text)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *(_text_renderer(stream) if as_text else _json_renderer()),
            ],
        )
    )
    _route_standard_logging(handler, level)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def _shared_processors(bound: dict[str, str], *, as_text: bool) -> list[Processor]:
    def bind(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {**bound, **event}

    if as_text:
        stamp = structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False)
    else:
        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    return [
        structlog.contextvars.merge_contextvars,
        bind,
        structlog.stdlib.add_logger_name,
        structlog.processors.add_log_level,
        stamp,
    ]


def _text_renderer(stream: TextIO) -> Iterable[Processor]:
    colours = "NO_COLOR" not in os.environ and (stream.isatty() or "FORCE_COLOR" in os.environ)
    yield structlog.dev.ConsoleRenderer(
        colors=colours, pad_event_to=0, pad_level=False, exception_formatter=structlog.dev.plain_traceback
    )


def _json_renderer() -> Iterable[Processor]:
    yield structlog.processors.format_exc_info
    yield structlog.processors.JSONRenderer()


def _route_standard_logging(handler: logging.Handler, level: int) -> None:
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    quiet = level if level == logging.DEBUG else max(level, logging.WARNING)
    for name in CHATTY:
        logging.getLogger(name).setLevel(quiet)
    logging.captureWarnings(capture=True)
