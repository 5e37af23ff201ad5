"""The worker's side of logs: where its children write them, and what becomes of them."""

from pathlib import Path

from turnout.config.masking import Masker
from turnout.config.settings import Settings
from turnout.executor.log_limit import LogTrimmer
from turnout.executor.log_store import LogStore
from turnout.executor.logs import log_path
from turnout.executor.roster import Roster
from turnout.executor.shipper import Shipper
from turnout.executor.spool import Spool
from turnout.metadata.attempts import ClaimedAttempt

_MIB = 1 << 20


class LogKeeping:
    """Names the files of logs, keeps them from growing without end, and sends them to the store if there is one.

    Args:
        settings: where logs go.
        roster: the attempts held.

    Raises:
        LogStoreError: there is no such kind of store, or its package is not installed.
    """

    def __init__(self, settings: Settings, roster: Roster) -> None:
        self._folder = settings.logs_path
        self._spool: Spool | None = None
        self._trimmer = LogTrimmer(roster)
        self._shipper: Shipper | None = None
        if settings.logs_url is not None:
            store = LogStore(settings.logs_url.get_secret_value())
            self._spool = Spool(settings.logs_path)
            worker = settings.worker
            self._shipper = Shipper(
                store,
                self._spool,
                roster,
                Masker(settings.passwords()),
                max_log_bytes=worker.max_log_per_attempt_mb * _MIB,
                max_spool_bytes=worker.max_log_spool_mb * _MIB,
            )

    def file_of(self, attempt: ClaimedAttempt) -> Path:
        """Name the file into which an attempt writes its log."""
        name = log_path(
            Path(),
            dag_id=attempt.dag_id,
            run_id=attempt.run_id,
            task_id=attempt.task_id,
            map_index=attempt.map_index,
            try_number=attempt.try_number,
            attempt_id=attempt.attempt_id,
        )
        return self._folder / name if self._spool is None else self._spool.path(attempt.attempt_id, name)

    def start(self) -> None:
        """Begin to cut and to send."""
        self._trimmer.start()
        if self._shipper is not None:
            self._shipper.start()

    def stop(self) -> None:
        """Send what is left, if the store is there, and end."""
        self._trimmer.stop()
        if self._shipper is not None:
            self._shipper.stop()
