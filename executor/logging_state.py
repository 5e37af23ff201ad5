"""The configuration of logging in this process, which user code may change.

Loggers that come later than these blocks begin are their makers' own.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def kept_logging() -> Iterator[None]:
    """Put back the configuration of all loggers after a block."""
    before = {logger: _state_of(logger) for logger in _loggers()}
    try:
        yield
    finally:
        for logger in [logger for logger, state in before.items() if _state_of(logger) != state]:
            level, logger.disabled, logger.propagate, handlers, filters = before[logger]
            logger.handlers[:], logger.filters[:] = handlers, filters
            logger.setLevel(level)
        logging.disable(logging.NOTSET)


@contextmanager
def kept_loggers_enabled() -> Iterator[None]:
    """Enable what was enabled before a block: `dictConfig` and `fileConfig` disable every logger they do not name."""
    enabled = [logger for logger in _loggers() if not logger.disabled]
    try:
        yield
    finally:
        for logger in enabled:
            logger.disabled = False
        logging.disable(logging.NOTSET)


def _loggers() -> list[logging.Logger]:
    known = logging.root.manager.loggerDict.values()
    return [logging.root, *(logger for logger in known if isinstance(logger, logging.Logger))]


def _state_of(logger: logging.Logger) -> tuple[int, bool, bool, tuple[Any, ...], tuple[Any, ...]]:
    return logger.level, logger.disabled, logger.propagate, tuple(logger.handlers), tuple(logger.filters)
