"""DAG versions as people read them."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class DagVersionRow:
    """One version of a DAG."""

    id: int
    version_number: int
    dag_id: str
    created_at: datetime
