"""What an explanation needs to know of one run and its DAG."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from turnout.metadata.states import UNFINISHED
from turnout.metadata.tables import sql_list
from turnout.metadata.versions import Content

_SHOWN = 3


@dataclass(frozen=True)
class RunFacts:
    """One run with its surroundings."""

    id: int
    now: datetime
    dag_id: str
    run_id: str
    run_type: str
    priority: int
    state: str
    run_after: datetime
    queued_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    timeout_at: datetime | None
    is_paused: bool
    is_active: bool
    max_active_runs: int
    file_path: str
    import_error: str | None
    import_error_line: int | None
    import_error_at: datetime | None
    content: Content | None  # of its own version once it has started, before that of the DAG's current one

    @property
    def is_backfill(self) -> bool:
        """Whether it stands in the line of its DAG's backfills."""
        return self.run_type == "backfill"


@dataclass(frozen=True)
class Runs:
    """Some runs of a DAG: the ids of the first few, and how many there are."""

    run_ids: Sequence[str]
    count: int


_FACTS = text("""
    SELECT r.id, clock_timestamp() AS now, r.dag_id, r.run_id, r.run_type, r.priority, r.state, r.run_after,
           r.queued_at, r.started_at, r.ended_at, r.timeout_at, d.is_paused, d.is_active, d.max_active_runs,
           d.file_path, e.message AS import_error, e.line AS import_error_line, e.at AS import_error_at, v.content
    FROM dag_run r JOIN dag d ON d.dag_id = r.dag_id
    LEFT JOIN dag_version v ON v.id = CASE
        WHEN r.state = 'queued' THEN d.current_version_id ELSE COALESCE(r.dag_version_id, d.current_version_id)
    END
    LEFT JOIN import_error e ON e.file_path = d.file_path
    WHERE r.id = :id
""")

_RUNS = """
    SELECT h.run_id, h.runs FROM (
        SELECT r.run_id, r.priority, r.run_after, r.id, count(*) OVER () AS runs FROM dag_run r
        WHERE r.dag_id = :dag_id AND {condition} ORDER BY r.priority DESC, r.run_after, r.id LIMIT :shown
    ) h ORDER BY h.priority DESC, h.run_after, h.id
"""
_IS_DUE = "r.state = 'queued' AND r.run_after <= clock_timestamp() AND (r.run_type = 'backfill') = :is_backfill"
_RUNNING = text(_RUNS.format(condition="r.state = 'running'"))
_DUE = text(_RUNS.format(condition=_IS_DUE))
_BEFORE = text(
    _RUNS.format(condition=f"{_IS_DUE} AND (-CAST(r.priority AS bigint), r.run_after, r.id) < (:rank, :run_after, :id)")
)

_TASKS = text(f"""
    SELECT state, count(*) AS tasks, (array_agg(task_id ORDER BY id))[1:{_SHOWN}] AS first FROM task_instance
    WHERE dag_run_id = :id AND state IN ({sql_list(UNFINISHED)})
    GROUP BY state ORDER BY state
""")  # noqa: S608  only constants of the law


def read_run_facts(connection: Connection, dag_run_id: int) -> RunFacts:
    """Read what is known of a run."""
    return RunFacts(**connection.execute(_FACTS, {"id": dag_run_id}).mappings().one())


def running_runs(connection: Connection, dag_id: str) -> Runs:
    """Find the running runs of a DAG, the first due first."""
    return _runs(connection.execute(_RUNNING, {"dag_id": dag_id, "shown": _SHOWN}).all())


def queued_before(connection: Connection, run: RunFacts) -> Runs:
    """Find the queued runs that stand before a run in its line: that of its DAG's backfills, or that of all others."""
    values = {**_line(run.dag_id, is_backfill=run.is_backfill), "rank": -run.priority}
    return _runs(connection.execute(_BEFORE, {**values, "run_after": run.run_after, "id": run.id}).all())


def queued_in_other_line(connection: Connection, run: RunFacts) -> Runs:
    """Find the queued runs of a run's DAG that stand in the line in which it does not."""
    return _runs(connection.execute(_DUE, _line(run.dag_id, is_backfill=not run.is_backfill)).all())


def unfinished_tasks(connection: Connection, dag_run_id: int) -> dict[str, tuple[int, list[str]]]:
    """Count the unfinished task instances of a run by state, with the task ids of the first few."""
    return {row.state: (row.tasks, row.first) for row in connection.execute(_TASKS, {"id": dag_run_id})}


def _line(dag_id: str, *, is_backfill: bool) -> dict[str, object]:
    return {"dag_id": dag_id, "is_backfill": is_backfill, "shown": _SHOWN}


def _runs(rows: Sequence[object]) -> Runs:
    found: Sequence[tuple[str, int]] = [tuple(row) for row in rows]  # type: ignore[arg-type, misc]
    return Runs([run_id for run_id, _ in found], found[0][1] if found else 0)
