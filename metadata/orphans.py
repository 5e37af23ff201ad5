"""Task instances of tasks that the DAG version of their run does not have: nobody would ever decide for them.

A run is bound to a version when it starts, so there are none, unless it starts again on another version.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, text

from turnout.metadata.states import ACTIVE, UNFINISHED
from turnout.metadata.tables import sql_list

#: What a worker has, or is about to have, comes to an end by itself. The names are unfolded once for each version: a
#: look into its content for each task instance would unpack all of it each time.
_REMOVE = text(f"""
    WITH asked AS (
        SELECT r.id, r.dag_version_id FROM dag_run r
        WHERE r.id = ANY(CAST(:runs AS bigint[])) AND r.dag_version_id IS NOT NULL
    ), task AS MATERIALIZED (
        SELECT v.id AS version, jsonb_object_keys(v.content -> 'tasks') AS task_id
        FROM dag_version v WHERE v.id = ANY(ARRAY(SELECT dag_version_id FROM asked))
    ), gone AS (
        SELECT t.id FROM asked a JOIN task_instance t ON t.dag_run_id = a.id
        WHERE t.state IN ({sql_list(UNFINISHED - ACTIVE)})
          AND NOT EXISTS (SELECT FROM task k WHERE k.version = a.dag_version_id AND k.task_id = t.task_id)
        ORDER BY t.id
        FOR NO KEY UPDATE OF t SKIP LOCKED
    )
    UPDATE task_instance t
    SET state = 'removed', cause = 'task_removed', ended_at = clock_timestamp(), next_try_at = NULL,
        error = 'The DAG version of the run does not have this task.'
    FROM gone g WHERE t.id = g.id AND t.state IN ({sql_list(UNFINISHED - ACTIVE)})
    RETURNING t.dag_id, t.task_id
""")  # noqa: S608  only constants of the law

_RUNNING = text("SELECT id FROM dag_run WHERE state = 'running'")


def remove_orphans(connection: Connection, runs: Sequence[int] | None = None) -> list[tuple[str, str]]:
    """Remove the unfinished task instances of tasks that the versions of some runs do not have.

    Args:
        connection: the transaction; a look at these runs has to follow, since they may have waited for nothing else.
        runs: the runs; all that are running when not given.

    Returns:
        The (dag id, task id) of each.
    """
    wanted = list(connection.scalars(_RUNNING)) if runs is None else list(runs)
    return [(row.dag_id, row.task_id) for row in connection.execute(_REMOVE, {"runs": wanted})] if wanted else []
