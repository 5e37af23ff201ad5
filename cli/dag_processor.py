"""`turnout dag-processor`."""

import queue
import signal

from turnout.config.logging import configure_logging
from turnout.config.settings import load_settings
from turnout.scheduler.processor.service import DagProcessor


def dag_processor() -> None:
    """Parse DAG files and store what they declare, until SIGTERM or Ctrl-C."""
    settings = load_settings()
    configure_logging(settings.log, process="dag-processor")
    requests: queue.SimpleQueue[int] = queue.SimpleQueue()  # the one queue that a signal handler may put into
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: requests.put(number))
    processor = DagProcessor(settings)
    try:
        processor.start()
        requests.get()
    finally:
        processor.stop()
