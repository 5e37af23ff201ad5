"""Writing assignments: what a child is told about an attempt, or about what a callback is called for."""

import json
import secrets
from pathlib import Path

from turnout.config.settings import Settings
from turnout.executor.assignment import INLINE_BYTES, Assignment
from turnout.executor.verdict import used_tries
from turnout.metadata.attempts import ClaimedAttempt
from turnout.tasks.context import RunFacts


class Assigner:
    """Writes assignments of one worker.

    Args:
        settings: where DAG files are, and limits.
        channel: path of the channel's socket.
    """

    def __init__(self, settings: Settings, channel: str) -> None:
        self._settings = settings
        self._channel = channel

    def assign(self, attempt: ClaimedAttempt, log_file: Path) -> Assignment:
        """Write an assignment, with a token of its own."""
        fetch_conf = bool(attempt.conf) and len(json.dumps(attempt.conf)) > INLINE_BYTES
        return Assignment(
            facts=RunFacts(
                dag_id=attempt.dag_id,
                run_id=attempt.run_id,
                task_id=attempt.task_id,
                attempt_id=str(attempt.attempt_id),
                run_type=attempt.run_type,
                logical_date=attempt.logical_date,
                data_interval_start=attempt.data_interval_start,
                data_interval_end=attempt.data_interval_end,
                run_after=attempt.run_after,
                conf={} if fetch_conf else attempt.conf,
                map_index=attempt.map_index,
                try_number=used_tries(attempt),
                max_tries=attempt.max_tries,
            ),
            dag_file=str(self._settings.dags_path / attempt.file_path),
            dags_folder=str(self._settings.dags_path),
            log_file=str(log_file),
            log_max_bytes=self._settings.worker.max_log_per_attempt_mb << 20,
            token=secrets.token_hex(16),
            channel=self._channel,
            fetch_conf=fetch_conf,
            import_timeout_s=self._settings.worker.import_timeout_s,
            xcom_max_bytes=self._settings.xcom.max_bytes,
        )
