"""DAG files that could not be imported."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from turnout.metadata.listings.page import Page, first


@dataclass(frozen=True)
class ImportErrorRow:
    """What is wrong with a DAG file."""

    filename: str
    timestamp: datetime
    line: int | None
    stack_trace: str  # the message; the name is that of the REST API


def list_import_errors(connection: Connection, limit: int) -> Page[ImportErrorRow]:
    """List the files that could not be imported, by path."""
    rows = connection.execute(
        text("""
            SELECT file_path AS filename, at AS timestamp, line, message AS stack_trace
            FROM import_error ORDER BY file_path LIMIT :limit
        """),
        {"limit": limit + 1},
    )
    return first((ImportErrorRow(**row) for row in rows.mappings()), limit)
