"""The life of a callback: called for by the transition itself (a trigger), claimed by a worker, and done.

A transition makes one row, in its own transaction: whoever makes it may die right after, and nothing calls for the same
callback twice. A worker that is lost while it runs one leaves it to the next worker that looks.
"""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from turnout.metadata.attempts import ClaimedAttempt
from turnout.metadata.states import CallbackState, TaskEvent
from turnout.metadata.texts import storable
from turnout.tasks.callbacks import CALLBACK_QUEUE

_IS_WAITING = f"""
    c.state IN ('waiting', 'running') AND (c.state = 'waiting' OR NOT EXISTS (
        SELECT FROM process p WHERE p.id = c.worker_id AND p.state = 'alive'
    )) AND NOT EXISTS (SELECT FROM paused_queue q WHERE q.queue = '{CALLBACK_QUEUE}')
"""  # noqa: S608  only constants

_ARE_WAITING = text(f"SELECT EXISTS (SELECT FROM callback c WHERE {_IS_WAITING})")  # noqa: S608  only constants

#: The first that waits, or that a lost worker has left; one that has used up its tries fails instead.
_CLAIM = text(f"""
    WITH first AS (
        SELECT c.id, c.tries <= :max_infra_retries AS may_run FROM callback c
        WHERE {_IS_WAITING} AND EXISTS (
            SELECT FROM process w
            WHERE w.id = :worker_id AND w.state = 'alive' AND w.lease_expires_at > clock_timestamp()
        )
        ORDER BY c.id LIMIT 1 FOR NO KEY UPDATE OF c SKIP LOCKED
    ), claimed AS (
        UPDATE callback c
        SET state = CASE WHEN f.may_run THEN 'running' ELSE 'failed' END, worker_id = :worker_id,
            tries = c.tries + CASE WHEN f.may_run THEN 1 ELSE 0 END, called_at = clock_timestamp(),
            done_at = CASE WHEN NOT f.may_run THEN clock_timestamp() END,
            problem = CASE
                WHEN NOT f.may_run
                THEN format('Given up: %s workers were lost while they ran it (max_infra_retries).', c.tries)
            END
        FROM first f WHERE c.id = f.id
        RETURNING c.*
    )
    SELECT c.id, c.tries, c.state, c.event, c.subject_state, c.started_at, c.ended_at, c.error, c.try_number,
           c.task_instance_id, c.attempt_id, c.dag_run_id, r.dag_id, t.task_id, t.map_index, t.max_tries, r.run_id,
           r.run_type, r.logical_date, r.data_interval_start, r.data_interval_end, r.run_after, r.conf,
           r.dag_version_id, d.file_path
    FROM claimed c
    JOIN dag_run r ON r.id = c.dag_run_id
    JOIN dag d ON d.dag_id = r.dag_id
    LEFT JOIN task_instance t ON t.id = c.task_instance_id
""")  # noqa: S608  the same

_FINISH = text("""
    UPDATE callback SET state = :state, done_at = clock_timestamp(), problem = :problem, log = :log
    WHERE id = :id AND state = 'running' AND worker_id = :worker_id AND tries = :tries
""")


#: What a claimed attempt has, and what stands for it where a callback is one of a run, or there was no attempt.
_SUBJECT: dict[str, Any] = {
    **dict.fromkeys(field.name for field in fields(ClaimedAttempt)),
    "task_instance_id": 0,
    "attempt_id": UUID(int=0),
    "task_id": "",
    "map_index": -1,
    "max_tries": 0,
    "infra_failures": 0,
    "dag_version_id": 0,
}


@dataclass(frozen=True)
class ClaimedCallback:
    """A callback that this worker is to run.

    Attributes:
        id: its row.
        tries: how often it has been started, this time included.
        state: `failed` when it has used up its tries: it is not to be run.
        event: what it is called for.
        subject: the attempt that the event was one of, as far as there was one; of a run it has no task.
        subject_state: the state that the transition led to.
        started_at: when the task or run had started.
        ended_at: when it had ended.
        error: what had gone wrong.
    """

    id: int
    tries: int
    state: CallbackState
    event: TaskEvent
    subject: ClaimedAttempt
    subject_state: str
    started_at: datetime | None
    ended_at: datetime | None
    error: str | None


def are_waiting(connection: Connection) -> bool:
    """Tell whether any callback waits for a worker."""
    return bool(connection.scalar(_ARE_WAITING))


def claim_next(connection: Connection, worker_id: int, max_infra_retries: int) -> ClaimedCallback | None:
    """Claim the callback that has waited longest: `waiting` → `running`, or again `running` after a lost worker.

    Args:
        connection: the transaction.
        worker_id: the term of the worker; nothing is claimed when it is over.
        max_infra_retries: how many workers may be lost while they run it before it fails.
    """
    said = {"worker_id": worker_id, "max_infra_retries": max_infra_retries}
    row = connection.execute(_CLAIM, said).mappings().one_or_none()
    if row is None:
        return None
    values = {name: value for name, value in row.items() if value is not None}
    subject = ClaimedAttempt(**{name: values.get(name, default) for name, default in _SUBJECT.items()})
    own = {field.name: row[field.name] for field in fields(ClaimedCallback) if field.name != "subject"}
    return ClaimedCallback(subject=subject, **own)


def finish(connection: Connection, worker_id: int, callback: ClaimedCallback, *, problem: str | None, log: str) -> bool:
    """Write how a callback went; false when it is no longer this worker's.

    Args:
        connection: the transaction.
        worker_id: the term of the worker that claimed it.
        callback: the callback.
        problem: why it failed; None when it did not.
        log: what it said, as the lines of a log.
    """
    return bool(
        connection.execute(
            _FINISH,
            {
                "id": callback.id,
                "tries": callback.tries,
                "worker_id": worker_id,
                "state": CallbackState.SUCCESS if problem is None else CallbackState.FAILED,
                "problem": problem and storable(problem),
                "log": log.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode() or None,
            },
        ).rowcount
    )
