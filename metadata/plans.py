"""Runs of authors' own timetables: planned ahead by the DAG processor, read by schedulers."""

import json

from sqlalchemy import Connection, text

from turnout.metadata.dags import DeclaredDag
from turnout.metadata.timings import TIMING_TABLES
from turnout.tasks.timetables import DataInterval

#: A file is due for a parse when fewer planned runs than this are left. A tenth of an hour, for one run a second.
LEAST_PLANNED = 50

_SAVE = text("""
    INSERT INTO planned_run (dag_id, interval_start, interval_end, run_after)
    SELECT :dag_id, n.interval_start, n.interval_end, n.run_after
    FROM jsonb_to_recordset(CAST(:runs AS jsonb)) AS n (
        interval_start timestamptz, interval_end timestamptz, run_after timestamptz
    )
    ON CONFLICT DO NOTHING
""")

#: Runs that were missed do not count where the policy has no use for them. A file that cannot be loaded is left alone.
_RUNNING_LOW = text(f"""
    SELECT DISTINCT d.file_path FROM {TIMING_TABLES}
    WHERE d.is_active AND d.plan_is_open
      AND NOT EXISTS (SELECT FROM import_error e WHERE e.file_path = d.file_path)
      AND :least > (
          SELECT count(*) FROM planned_run p
          WHERE p.dag_id = d.dag_id AND p.interval_end > COALESCE(l.last_end, '-infinity')
            AND (v.content ->> 'catchup' = 'all' OR p.run_after > now())
      )
""")  # noqa: S608  only constants of this package

_LAST_INTERVALS = text(f"""
    SELECT d.dag_id, l.last_start, l.last_end FROM {TIMING_TABLES}
    WHERE d.file_path = :file_path AND l.last_end IS NOT NULL
""")  # noqa: S608  only constants of this package


def save_plan(connection: Connection, dag: DeclaredDag) -> None:
    """Replace what is planned ahead of a DAG; nothing is, unless its timetable is of its author's own."""
    connection.execute(text("DELETE FROM planned_run WHERE dag_id = :dag_id"), {"dag_id": dag.dag_id})
    connection.execute(
        text("UPDATE dag SET plan_is_open = :is_open WHERE dag_id = :dag_id AND plan_is_open <> :is_open"),
        {"dag_id": dag.dag_id, "is_open": dag.plan is not None and dag.plan.is_open},
    )
    if dag.plan is None:
        return
    runs = [
        {
            "interval_start": run.data_interval.start.isoformat(),
            "interval_end": run.data_interval.end.isoformat(),
            "run_after": run.run_after.isoformat(),
        }
        for run in dag.plan.runs
    ]
    connection.execute(_SAVE, {"dag_id": dag.dag_id, "runs": json.dumps(runs)})


def files_to_plan(connection: Connection) -> list[str]:
    """Name the files whose DAGs have few planned runs left."""
    return list(connection.scalars(_RUNNING_LOW, {"least": LEAST_PLANNED}))


def is_open(connection: Connection, dag_id: str) -> bool:
    """Tell whether more runs of a DAG are to be planned, after those that are."""
    return bool(connection.scalar(text("SELECT plan_is_open FROM dag WHERE dag_id = :dag_id"), {"dag_id": dag_id}))


def last_intervals(connection: Connection, file_path: str) -> dict[str, DataInterval]:
    """Read the data interval of the last scheduled run of each DAG of a file."""
    rows = connection.execute(_LAST_INTERVALS, {"file_path": file_path})
    return {row.dag_id: DataInterval(row.last_start, row.last_end) for row in rows}
