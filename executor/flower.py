"""Flower on our application: web pages about the Celery workers and what they run."""

import ipaddress
import math
import os
from collections.abc import Mapping

from turnout.config.errors import TurnoutError
from turnout.config.settings import Settings
from turnout.executor.app import DEFAULT_QUEUE, make_app
from turnout.executor.publisher import CeleryBroker

#: Flower's own variables that put a password, or a log-in elsewhere, before its pages.
_LOG_INS = ("FLOWER_BASIC_AUTH", "FLOWER_AUTH")


class FlowerError(TurnoutError):
    """Flower cannot be started."""


def run_flower(settings: Settings, address: str, port: int) -> None:
    """Serve Flower's pages in this process, until SIGTERM or Ctrl-C.

    Args:
        settings: the broker is taken from here.
        address: where to listen; anything but a loopback address needs a log-in.
        port: the port to listen on.

    Raises:
        FlowerError: everybody could see the pages, or the address is taken or not ours.
        BrokerUnavailableError: the broker cannot be reached; later outages Flower sits out.
    """
    require_log_in(address, os.environ)
    _require_broker(settings)
    # What a person changes goes through Turnout, which keeps a record; Flower is there to look.
    os.environ.setdefault("FLOWER_READ_ONLY", "true")
    # A worker that is silent for a whole lease is dead; one that was stopped leaves at once.
    os.environ.setdefault("FLOWER_PURGE_OFFLINE_WORKERS", str(math.ceil(settings.worker.lease_s)))
    try:
        make_app(settings).start(["flower", f"--address={address}", f"--port={port}"])
    except OSError as error:
        reason = error.strerror or str(error)
        raise FlowerError(
            f"Flower cannot listen on {address}, port {port}: {reason}. Choose others with --address and --port."
        ) from error


def require_log_in(address: str, environ: Mapping[str, str]) -> None:
    """Refuse to show the pages to other machines without a log-in.

    Raises:
        FlowerError: there is none.
    """
    if not _is_loopback(address) and not any(environ.get(name) for name in _LOG_INS):
        raise FlowerError(
            f"Without a password Flower is not shown to other machines, on {address}: set "
            "FLOWER_BASIC_AUTH=user:password, or leave --address at 127.0.0.1."
        )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _require_broker(settings: Settings) -> None:
    broker = CeleryBroker(settings)
    try:
        broker.depths([DEFAULT_QUEUE])
    finally:
        broker.close()
