"""The limits, watched by a test's database itself: a statement that would exceed one raises there.

Whoever makes anything `queued`, or a run `running`, takes a lock that lasts until its commit, and counts what there is
then. So the count is that of the instant of the commit, whoever else commits before or after it.
"""

from sqlalchemy import Connection, text

#: What is in use: one row for each (limit, holder), with how much it may be.
_TASK_LIMITS = """
    WITH active AS (
        SELECT dag_id, dag_run_id, task_id, state, pool, pool_slots, extra_pools, max_active_tis_per_dag AS per_dag,
               max_active_tis_per_dagrun AS per_run
        FROM task_instance WHERE state IN ('queued', 'running', 'deferred')
    ), held AS (
        SELECT state, pool, pool_slots AS slots FROM active
        UNION ALL
        SELECT a.state, e.key, e.value::int FROM active a, jsonb_each_text(a.extra_pools) e
    ), busy AS (
        SELECT * FROM active WHERE state <> 'deferred'
    )
    SELECT 'pool ' || p.name AS name, sum(h.slots) AS used, p.slots AS most
    FROM held h JOIN pool p ON p.name = h.pool
    WHERE h.state <> 'deferred' OR p.include_deferred
    GROUP BY p.name
    UNION ALL
    SELECT 'tasks of run ' || b.dag_run_id, count(*), min(d.max_active_tasks)
    FROM busy b JOIN dag d USING (dag_id) GROUP BY b.dag_run_id
    UNION ALL
    SELECT 'instances of ' || dag_id || '.' || task_id, count(*), min(per_dag)
    FROM busy WHERE per_dag IS NOT NULL GROUP BY dag_id, task_id
    UNION ALL
    SELECT 'instances of ' || task_id || ' in run ' || dag_run_id, count(*), min(per_run)
    FROM busy WHERE per_run IS NOT NULL GROUP BY dag_run_id, task_id
    UNION ALL
    SELECT 'parallelism', count(*), {parallelism} FROM busy
"""
_RUN_LIMITS = """
    SELECT 'runs of ' || r.dag_id AS name, count(*) AS used, min(d.max_active_runs) AS most
    FROM dag_run r JOIN dag d USING (dag_id) WHERE r.state = 'running' GROUP BY r.dag_id
"""
_SEEN = "CREATE UNLOGGED TABLE limit_seen (name text PRIMARY KEY, used bigint NOT NULL, most bigint NOT NULL)"
_FUNCTION = """
    CREATE FUNCTION limits_of_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        broken text;
    BEGIN
        IF NOT EXISTS (SELECT FROM fresh WHERE state = '{state}') THEN
            RETURN NULL;
        END IF;
        PERFORM pg_advisory_xact_lock(6150);
        INSERT INTO limit_seen AS s SELECT name, used, most FROM ({limits}) l
        ON CONFLICT (name) DO UPDATE SET used = greatest(s.used, EXCLUDED.used);
        SELECT string_agg(format('%s: %s of %s', name, used, most), ', ') INTO broken
        FROM ({limits}) l WHERE used > most;
        IF broken IS NOT NULL THEN
            RAISE EXCEPTION 'limit exceeded: %', broken;
        END IF;
        RETURN NULL;
    END $$
"""
_TRIGGER = """
    CREATE TRIGGER limits AFTER UPDATE ON {table} REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION limits_of_{table}()
"""


def watch(connection: Connection, parallelism: int) -> None:
    """Make the database refuse whatever exceeds a limit, and note in `limit_seen` the most that was in use."""
    connection.execute(text(_SEEN))
    for table, state, limits in (
        ("task_instance", "queued", _TASK_LIMITS.format(parallelism=parallelism)),
        ("dag_run", "running", _RUN_LIMITS),
    ):
        connection.execute(text(_FUNCTION.format(table=table, state=state, limits=limits)))
        connection.execute(text(_TRIGGER.format(table=table)))
