"""What of the configuration of logging is put back."""

import logging
import logging.config

from turnout.executor.logging_state import kept_loggers_enabled, kept_logging


def test_what_a_block_configures_is_put_back() -> None:
    logger, handler = logging.getLogger("tests.kept"), logging.NullHandler()
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    assert logger.isEnabledFor(logging.INFO) is False
    with kept_logging():
        logging.config.dictConfig({"version": 1})
        logger.handlers.clear()
        logger.addFilter(lambda _record: False)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        assert logger.isEnabledFor(logging.DEBUG) is False  # disabled
        logging.disable(logging.CRITICAL)
    assert (logger.handlers, logger.filters) == ([handler], [])
    assert (logger.level, logger.disabled, logger.propagate) == (logging.WARNING, False, True)
    assert [logger.isEnabledFor(level) for level in (logging.INFO, logging.WARNING)] == [False, True]


def test_an_import_may_set_levels_but_disable_no_logger_of_others() -> None:
    kept, left = logging.getLogger("elsewhere.enabled"), logging.getLogger("elsewhere.disabled")
    left.disabled = True
    with kept_loggers_enabled():
        logging.config.dictConfig({"version": 1, "loggers": {"tests": {"level": "ERROR"}}})
        assert kept.disabled
    assert (kept.disabled, left.disabled) == (False, True)
    assert logging.getLogger("tests").level == logging.ERROR
    logging.getLogger("tests").setLevel(logging.NOTSET)
