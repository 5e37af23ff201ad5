"""Start an embedded server again when it dies while others need it."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from turnout.cli.local.backoff import Backoff
from turnout.cli.local.errors import LocalError
from turnout.cli.local.server import EmbeddedServer


@dataclass
class _Patient:
    server: EmbeddedServer
    well_since: float
    due_at: float | None = None
    backoff: Backoff = field(default_factory=Backoff)


class Tending:
    """Watch over the embedded servers.

    Args:
        servers: those that were started.
        say: takes a remark for a person.
        clock: seconds that never go back.
    """

    def __init__(
        self, servers: Iterable[EmbeddedServer], say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._clock = clock
        self._patients = [_Patient(server, clock()) for server in servers]

    def poll(self) -> None:
        """Take note of deaths, and start again what is due."""
        for patient in self._patients:
            if patient.due_at is not None:
                self._start_if_due(patient)
            elif patient.server.pid is None:
                self._plan(patient, f"{patient.server.title} ended unexpectedly, its log is {patient.server.log}")

    def _plan(self, patient: _Patient, what: str) -> None:
        delay_s = patient.backoff.delay_after(self._clock() - patient.well_since)
        patient.due_at = self._clock() + delay_s
        self._say(f"{what}: starting it again in {delay_s:.0f} s")

    def _start_if_due(self, patient: _Patient) -> None:
        if patient.due_at is None or patient.due_at > self._clock():
            return
        patient.well_since, patient.due_at = self._clock(), None
        try:
            patient.server.start()
        except LocalError as error:
            self._plan(patient, str(error).rstrip("."))
