"""The term: this worker's row in the registry of processes, as all its threads see it."""

import threading


class Term:
    """The id of the current term, once there is one."""

    def __init__(self) -> None:
        self._began = threading.Event()
        self._worker_id = 0

    @property
    def worker_id(self) -> int:
        """The id of the term; wait for it first."""
        return self._worker_id

    def begin(self, worker_id: int) -> None:
        """Begin a term."""
        self._worker_id = worker_id
        self._began.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until a term has begun."""
        return self._began.wait(timeout_s)
