"""`turnout dag-processor`."""

from turnout.cli.serving import serve
from turnout.config.logging import configure_logging
from turnout.config.settings import load_settings
from turnout.scheduler.processor.service import DagProcessor


def dag_processor() -> None:
    """Parse DAG files and store what they declare, until SIGTERM or Ctrl-C."""
    settings = load_settings()
    configure_logging(settings.log, process="dag-processor")
    serve(DagProcessor(settings))
