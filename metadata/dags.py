"""DAGs, their versions and the import errors of their files.

DAG processors store one file at a time (`lock_store`), so that any number of them may look at the same folder.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB

from turnout.metadata.planning import TIMING_KEYS
from turnout.metadata.versions import Content
from turnout.tasks.timetables import Plan

#: Any number that nobody else uses: the advisory lock under which a DAG file is stored.
STORE_LOCK = 7_305_808_878


@dataclass(frozen=True)
class DeclaredDag:
    """A DAG as its file declares it."""

    dag_id: str
    content_hash: str
    content: Content
    plan: Plan | None = None  # of a timetable of the author's own: its next runs


@dataclass(frozen=True)
class KnownDag:
    """A DAG as the database knows it; its row is locked."""

    dag_id: str
    file_path: str
    is_active: bool
    content_hash: str
    timing: dict[str, Any]  # the part of its content that its runs depend on


@dataclass(frozen=True)
class ImportProblem:
    """Why a DAG file cannot be loaded."""

    message: str
    line: int | None = None


_LOCK_KNOWN = text("""
    SELECT d.dag_id, d.file_path, d.is_active, v.content_hash,
           (SELECT jsonb_object_agg(k, v.content -> k) FROM unnest(CAST(:timing AS text[])) k) AS timing
    FROM dag d JOIN dag_version v ON v.id = d.current_version_id
    WHERE d.dag_id = ANY(:dag_ids)
    ORDER BY d.dag_id
    FOR NO KEY UPDATE OF d
""")

#: The same content is the same version, also after a detour over another one.
_SAVE_VERSION = text("""
    WITH known AS (
        SELECT id FROM dag_version WHERE dag_id = :dag_id AND content_hash = :content_hash
    ), made AS (
        INSERT INTO dag_version (dag_id, version_number, content_hash, content)
        SELECT :dag_id, COALESCE(max(version_number), 0) + 1, :content_hash, :content
        FROM dag_version WHERE dag_id = :dag_id HAVING NOT EXISTS (SELECT FROM known)
        RETURNING id
    )
    SELECT id FROM known UNION ALL SELECT id FROM made
""").bindparams(bindparam("content", type_=JSONB))

_SAVE = text("""
    INSERT INTO dag (dag_id, is_paused, is_active, file_path, current_version_id, max_active_runs, max_active_tasks,
                     tags, description, callbacks, parsed_at)
    VALUES (:dag_id, :is_paused, true, :file_path, :version_id, :max_active_runs, :max_active_tasks, :tags,
            :description, :callbacks, now())
    ON CONFLICT (dag_id) DO UPDATE
    SET is_active = true, file_path = EXCLUDED.file_path, current_version_id = EXCLUDED.current_version_id,
        max_active_runs = EXCLUDED.max_active_runs, max_active_tasks = EXCLUDED.max_active_tasks,
        tags = EXCLUDED.tags, description = EXCLUDED.description, callbacks = EXCLUDED.callbacks,
        parsed_at = EXCLUDED.parsed_at
""")

#: The time stays that of the first occurrence for as long as the error is the same.
_SAVE_IMPORT_ERROR = text("""
    INSERT INTO import_error AS e (file_path, message, line) VALUES (:file_path, :message, :line)
    ON CONFLICT (file_path) DO UPDATE SET message = EXCLUDED.message, line = EXCLUDED.line, at = now()
    WHERE (e.message, e.line) IS DISTINCT FROM (EXCLUDED.message, EXCLUDED.line)
""")


def lock_store(connection: Connection) -> None:
    """Wait until no other DAG processor stores anything; the lock lasts until the end of the transaction."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": STORE_LOCK})


def lock_known(connection: Connection, dag_ids: Collection[str]) -> dict[str, KnownDag]:
    """Lock those of the DAGs that the database knows, against schedulers that would create runs of them."""
    rows = connection.execute(_LOCK_KNOWN, {"dag_ids": sorted(dag_ids), "timing": list(TIMING_KEYS)})
    return {
        row.dag_id: KnownDag(
            dag_id=row.dag_id,
            file_path=row.file_path,
            is_active=row.is_active,
            content_hash=row.content_hash,
            timing=row.timing,
        )
        for row in rows
    }


def save_dag(connection: Connection, file_path: str, dag: DeclaredDag, *, paused_at_creation: bool) -> None:
    """Make what a file declares the current version of a DAG, which is active from now on.

    Args:
        connection: holds the store lock.
        file_path: relative to the DAGs folder.
        dag: the DAG.
        paused_at_creation: whether a DAG that is seen for the first time, and does not say it itself, is paused.
    """
    said: bool | None = dag.content["is_paused_upon_creation"]
    version_id = connection.execute(
        _SAVE_VERSION, {"dag_id": dag.dag_id, "content_hash": dag.content_hash, "content": dag.content}
    ).scalar_one()
    connection.execute(
        _SAVE,
        {
            "dag_id": dag.dag_id,
            "is_paused": paused_at_creation if said is None else said,
            "file_path": file_path,
            "version_id": version_id,
            "max_active_runs": dag.content["max_active_runs"],
            "max_active_tasks": dag.content["max_active_tasks"],
            "tags": dag.content["tags"],
            "description": dag.content["description"],
            "callbacks": dag.content["callbacks"] or None,
        },
    )


def begin_timetables(connection: Connection, dag_ids: Collection[str]) -> None:
    """Have the timetables of DAGs count from now on: what came due earlier was missed."""
    connection.execute(
        text("UPDATE dag SET scheduled_since = now() WHERE dag_id = ANY(:dag_ids)"), {"dag_ids": sorted(dag_ids)}
    )


def note_parsed(connection: Connection, dag_ids: Collection[str]) -> None:
    """Record that DAGs were parsed and found as they were."""
    connection.execute(
        text("UPDATE dag SET parsed_at = now() WHERE dag_id = ANY(:dag_ids)"), {"dag_ids": sorted(dag_ids)}
    )


def retire_undeclared(connection: Connection, file_path: str, declared: Collection[str]) -> list[str]:
    """Deactivate the DAGs that a file declared once and declares no longer; return their ids."""
    rows = connection.scalars(
        text("""
            UPDATE dag SET is_active = false
            WHERE file_path = :file_path AND is_active AND dag_id <> ALL(:declared)
            RETURNING dag_id
        """),
        {"file_path": file_path, "declared": sorted(declared)},
    )
    return list(rows)


def files_with_traces(connection: Connection) -> set[str]:
    """Name the files that have an active DAG or an import error."""
    return set(
        connection.scalars(text("SELECT file_path FROM dag WHERE is_active UNION SELECT file_path FROM import_error"))
    )


def retire_file(connection: Connection, file_path: str) -> list[str]:
    """Deactivate the DAGs of a file that is gone, and forget its import error; return the ids of the DAGs."""
    clear_import_error(connection, file_path)
    return retire_undeclared(connection, file_path, ())


def save_import_error(connection: Connection, file_path: str, problem: ImportProblem) -> None:
    """Record why a file cannot be loaded, in place of what was recorded before."""
    connection.execute(_SAVE_IMPORT_ERROR, {"file_path": file_path, "message": problem.message, "line": problem.line})


def clear_import_error(connection: Connection, file_path: str) -> None:
    """Forget the import error of a file."""
    connection.execute(text("DELETE FROM import_error WHERE file_path = :file_path"), {"file_path": file_path})
