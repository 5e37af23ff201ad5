"""The tables of the main job."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0001"
down_revision: str | Sequence[str] | None = None

#: That a task is skipped is news when it has begun, or when a person says so; not when the graph says so.
_CALL_FOR_TASK = """
    CREATE FUNCTION call_for_task() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        event CONSTANT text := CASE NEW.state
            WHEN 'running' THEN 'execute'
            WHEN 'success' THEN 'success'
            WHEN 'failed' THEN 'failure'
            WHEN 'up_for_retry' THEN 'retry'
            WHEN 'skipped' THEN CASE
                WHEN OLD.state = 'running' OR current_setting('turnout.actor', true) = 'person' THEN 'skipped'
            END
        END;
    BEGIN
        IF event = ANY(NEW.callbacks) THEN
            INSERT INTO callback (dag_run_id, task_instance_id, event, subject_state, attempt_id, try_number,
                                  started_at, ended_at, error)
            VALUES (NEW.dag_run_id, NEW.id, event, NEW.state, NEW.attempt_id, NEW.try_number - NEW.infra_failures,
                    NEW.started_at, NEW.ended_at, NEW.error);
        END IF;
        RETURN NULL;
    END $$
"""
_CALL_FOR_RUN = """
    CREATE FUNCTION call_for_run() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        event CONSTANT text := CASE NEW.state WHEN 'success' THEN 'success' ELSE 'failure' END;
    BEGIN
        INSERT INTO callback (dag_run_id, event, subject_state, started_at, ended_at)
        SELECT NEW.id, event, NEW.state, NEW.started_at, NEW.ended_at
        FROM dag d WHERE d.dag_id = NEW.dag_id AND event = ANY(d.callbacks);
        RETURN NULL;
    END $$
"""


def upgrade() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("task_id", sa.Text(), nullable=True),
        sa.Column("detail", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_log"),
    )
    op.create_index("ix_audit_log_at", "audit_log", ["at"], unique=False)
    op.create_table(
        "dag_version",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("version_number", sa.Integer(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("content", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_dag_version"),
        sa.UniqueConstraint("dag_id", "content_hash", name="uq_dag_version_dag_id_content_hash"),
        sa.UniqueConstraint("dag_id", "version_number", name="uq_dag_version_dag_id_version_number"),
    )
    op.create_table(
        "import_error",
        sa.Column("file_path", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("file_path", name="pk_import_error"),
    )
    op.create_table(
        "pool",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("include_deferred", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("rate_starts", sa.Integer(), nullable=True),
        sa.Column("rate_period_s", sa.REAL(), nullable=True),
        sa.CheckConstraint("slots >= 0", name=op.f("ck_pool_slots_not_negative")),
        sa.CheckConstraint("(rate_starts IS NULL) = (rate_period_s IS NULL)", name=op.f("ck_pool_rate_whole")),
        sa.CheckConstraint("rate_starts >= 1 AND rate_period_s > 0", name=op.f("ck_pool_rate_positive")),
        sa.PrimaryKeyConstraint("name", name="pk_pool"),
    )
    op.create_table(
        "pool_start",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("starts", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["pool"], ["pool.name"], name="fk_pool_start_pool", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_pool_start"),
    )
    op.create_index("ix_pool_start_pool", "pool_start", ["pool", "at"], unique=False)
    op.create_table(
        "guard", sa.Column("name", sa.Text(), nullable=False), sa.PrimaryKeyConstraint("name", name="pk_guard")
    )
    op.create_table(
        "drained_worker",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_drained_worker"),
    )
    op.create_table(
        "paused_queue",
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("queue", name="pk_paused_queue"),
    )
    op.create_table(
        "process",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'alive'"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hostname", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("queues", sa.ARRAY(sa.Text()), nullable=True),
        sa.Column("pools", sa.ARRAY(sa.Text()), nullable=True),
        sa.Column("slots", sa.Integer(), nullable=True),
        sa.Column("runs_callbacks", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("finished_per_s", sa.REAL(), nullable=True),
        sa.Column("load", sa.REAL(), nullable=True),
        sa.Column("memory_mb", sa.Integer(), nullable=True),
        sa.Column("closed_for", sa.Text(), nullable=True),
        sa.Column("last_loop_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_loop", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("troubles", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'[]'"), nullable=False),
        sa.CheckConstraint("kind IN ('dag_processor', 'scheduler', 'worker')", name=op.f("ck_process_kind_known")),
        sa.CheckConstraint("state IN ('alive', 'dead', 'stopped')", name=op.f("ck_process_state_known")),
        sa.PrimaryKeyConstraint("id", name="pk_process"),
    )
    op.create_index("ix_process_alive", "process", ["kind"], unique=False, postgresql_where=sa.text("state = 'alive'"))
    op.create_table(
        "wakeup",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("dag_run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_wakeup"),
    )
    op.create_index("ix_wakeup_dag_run_id", "wakeup", ["dag_run_id"], unique=False)
    op.create_table(
        "dag",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("is_paused", sa.Boolean(), nullable=False),
        sa.Column("is_active", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("file_path", sa.Text(), nullable=False),
        sa.Column("current_version_id", sa.BigInteger(), nullable=True),
        sa.Column("max_active_runs", sa.Integer(), nullable=False),
        sa.Column("max_active_tasks", sa.Integer(), server_default=sa.text("16"), nullable=False),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("callbacks", sa.ARRAY(sa.Text()), nullable=True),
        sa.Column("parsed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("scheduled_since", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("plan_is_open", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("backfill_turn", sa.REAL(), server_default=sa.text("0"), nullable=False),
        sa.Column("next_logical_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_interval_start", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_interval_end", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_run_after", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["current_version_id"], ["dag_version.id"], name="fk_dag_current_version_id"),
        sa.PrimaryKeyConstraint("dag_id", name="pk_dag"),
    )
    op.create_index(
        "ix_dag_due", "dag", ["next_run_after"], unique=False, postgresql_where=sa.text("is_active AND NOT is_paused")
    )
    op.create_table(
        "planned_run",
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("interval_start", sa.DateTime(timezone=True), nullable=False),
        sa.Column("interval_end", sa.DateTime(timezone=True), nullable=False),
        sa.Column("run_after", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["dag_id"], ["dag.dag_id"], name="fk_planned_run_dag_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("dag_id", "interval_start", name="pk_planned_run"),
    )
    op.create_table(
        "backfill",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("from_date", sa.DateTime(timezone=True), nullable=False),
        sa.Column("to_date", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["dag_id"], ["dag.dag_id"], name="fk_backfill_dag_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_backfill"),
    )
    op.create_table(
        "dag_run",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("run_type", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'queued'"), nullable=False),
        sa.Column("dag_version_id", sa.BigInteger(), nullable=True),
        sa.Column("backfill_id", sa.BigInteger(), nullable=True),
        sa.Column("logical_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("data_interval_start", sa.DateTime(timezone=True), nullable=True),
        sa.Column("data_interval_end", sa.DateTime(timezone=True), nullable=True),
        sa.Column("run_after", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("timeout_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("conf", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.CheckConstraint(
            "run_type IN ('asset_triggered', 'backfill', 'manual', 'operator_triggered', 'scheduled')",
            name=op.f("ck_dag_run_run_type_known"),
        ),
        sa.CheckConstraint("state IN ('failed', 'queued', 'running', 'success')", name=op.f("ck_dag_run_state_known")),
        sa.ForeignKeyConstraint(["backfill_id"], ["backfill.id"], name="fk_dag_run_backfill_id"),
        sa.ForeignKeyConstraint(["dag_id"], ["dag.dag_id"], name="fk_dag_run_dag_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["dag_version_id"], ["dag_version.id"], name="fk_dag_run_dag_version_id"),
        sa.PrimaryKeyConstraint("id", name="pk_dag_run"),
        sa.UniqueConstraint("dag_id", "logical_date", name="uq_dag_run_dag_id_logical_date"),
        sa.UniqueConstraint("dag_id", "run_id", name="uq_dag_run_dag_id_run_id"),
    )
    op.create_index(
        "ix_dag_run_active",
        "dag_run",
        ["dag_id", "state", "run_after"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued', 'running')"),
    )
    op.create_index(
        "ix_dag_run_queued",
        "dag_run",
        ["dag_id", sa.literal_column("priority DESC"), "run_after", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'queued' AND run_type <> 'backfill'"),
    )
    op.create_index(
        "ix_dag_run_queued_backfill",
        "dag_run",
        ["dag_id", sa.literal_column("priority DESC"), "run_after", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'queued' AND run_type = 'backfill'"),
    )
    op.create_index(
        "ix_dag_run_due", "dag_run", ["run_after"], unique=False, postgresql_where=sa.text("state = 'queued'")
    )
    op.create_index(
        "ix_dag_run_open",
        "dag_run",
        ["dag_id"],
        unique=False,
        postgresql_where=sa.text("run_type = 'scheduled' AND state IN ('queued', 'running')"),
    )
    op.create_index(
        "ix_dag_run_scheduled",
        "dag_run",
        ["dag_id", "logical_date"],
        unique=False,
        postgresql_where=sa.text("run_type = 'scheduled'"),
    )
    op.create_index(
        "ix_dag_run_timeout",
        "dag_run",
        ["timeout_at"],
        unique=False,
        postgresql_where=sa.text("state = 'running' AND timeout_at IS NOT NULL"),
    )
    op.create_table(
        "task_instance",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("dag_run_id", sa.BigInteger(), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("map_index", sa.Integer(), server_default=sa.text("-1"), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'none'"), nullable=False),
        sa.Column("attempt_id", sa.Uuid(), nullable=True),
        sa.Column("try_number", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("infra_failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("max_tries", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("pool_slots", sa.Integer(), nullable=False),
        sa.Column("extra_pools", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("callbacks", sa.ARRAY(sa.Text()), nullable=True),
        sa.Column("run_priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("priority_weight", sa.Integer(), nullable=False),
        sa.Column("run_date", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("max_active_tis_per_dag", sa.Integer(), nullable=True),
        sa.Column("max_active_tis_per_dagrun", sa.Integer(), nullable=True),
        sa.Column("scheduled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_try_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("scheduler_id", sa.BigInteger(), nullable=True),
        sa.Column("worker_id", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('cancelled', 'failed', 'lost', 'returned', 'skipped', 'success')",
            name=op.f("ck_task_instance_outcome_known"),
        ),
        sa.CheckConstraint(
            "state <> 'running' OR (worker_id IS NOT NULL AND started_at IS NOT NULL)",
            name=op.f("ck_task_instance_running_has_worker"),
        ),
        sa.CheckConstraint(
            "state IN ('deferred', 'failed', 'none', 'queued', 'removed', 'running', 'scheduled', 'skipped', 'success', 'up_for_reschedule', 'up_for_retry', 'upstream_failed')",
            name=op.f("ck_task_instance_state_known"),
        ),
        sa.CheckConstraint(
            "state NOT IN ('queued', 'running') OR attempt_id IS NOT NULL",
            name=op.f("ck_task_instance_active_has_attempt"),
        ),
        sa.CheckConstraint(
            "state NOT IN ('up_for_retry', 'up_for_reschedule') OR next_try_at IS NOT NULL",
            name=op.f("ck_task_instance_waiting_has_time"),
        ),
        sa.CheckConstraint("pool_slots >= 1", name=op.f("ck_task_instance_pool_slots_positive")),
        sa.ForeignKeyConstraint(["dag_run_id"], ["dag_run.id"], name="fk_task_instance_dag_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_task_instance"),
        sa.UniqueConstraint("dag_run_id", "task_id", "map_index", name="uq_task_instance_dag_run_id_task_id_map_index"),
    )
    op.create_index(
        "ix_task_instance_active",
        "task_instance",
        ["dag_run_id"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued', 'running')"),
    )
    op.create_index(
        "ix_task_instance_deferred",
        "task_instance",
        ["pool"],
        unique=False,
        postgresql_where=sa.text("state = 'deferred'"),
    )
    op.create_index(
        "ix_task_instance_partners",
        "task_instance",
        ["pool"],
        unique=False,
        postgresql_where=sa.text("state = 'scheduled' AND extra_pools IS NOT NULL"),
    )
    op.create_index(
        "ix_task_instance_due",
        "task_instance",
        ["next_try_at"],
        unique=False,
        postgresql_where=sa.text("state IN ('up_for_retry', 'up_for_reschedule')"),
    )
    op.create_index(
        "ix_task_instance_scheduled",
        "task_instance",
        [
            "pool",
            "queue",
            sa.literal_column("run_priority DESC"),
            sa.literal_column("priority_weight DESC"),
            "run_date",
            "id",
        ],
        unique=False,
        postgresql_where=sa.text("state = 'scheduled'"),
    )
    op.create_index(
        "ix_task_instance_unfinished",
        "task_instance",
        ["dag_run_id"],
        unique=False,
        postgresql_where=sa.text(
            "state IN ('deferred', 'none', 'queued', 'running', 'scheduled', 'up_for_reschedule', 'up_for_retry')"
        ),
    )
    op.create_table(
        "xcom",
        sa.Column("dag_run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("map_index", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["dag_run_id"], ["dag_run.id"], name="fk_xcom_dag_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("dag_run_id", "task_id", "map_index", "key", name="pk_xcom"),
    )
    op.create_table(
        "task_attempt",
        sa.Column("attempt_id", sa.Uuid(), nullable=False),
        sa.Column("task_instance_id", sa.BigInteger(), nullable=False),
        sa.Column("try_number", sa.Integer(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("scheduler_id", sa.BigInteger(), nullable=True),
        sa.Column("worker_id", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('cancelled', 'failed', 'lost', 'returned', 'skipped', 'success')",
            name=op.f("ck_task_attempt_outcome_known"),
        ),
        sa.ForeignKeyConstraint(
            ["task_instance_id"], ["task_instance.id"], name="fk_task_attempt_task_instance_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("attempt_id", name="pk_task_attempt"),
    )
    op.create_index("ix_task_attempt_task_instance_id", "task_attempt", ["task_instance_id"], unique=False)
    op.create_table(
        "callback",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("dag_run_id", sa.BigInteger(), nullable=False),
        sa.Column("task_instance_id", sa.BigInteger(), nullable=True),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'waiting'"), nullable=False),
        sa.Column("tries", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("subject_state", sa.Text(), nullable=False),
        sa.Column("attempt_id", sa.Uuid(), nullable=True),
        sa.Column("try_number", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("called_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("worker_id", sa.BigInteger(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("log", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "event IN ('execute', 'failure', 'retry', 'skipped', 'success')", name=op.f("ck_callback_event_known")
        ),
        sa.CheckConstraint(
            "state IN ('failed', 'running', 'success', 'waiting')", name=op.f("ck_callback_state_known")
        ),
        sa.ForeignKeyConstraint(["dag_run_id"], ["dag_run.id"], name="fk_callback_dag_run_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["task_instance_id"], ["task_instance.id"], name="fk_callback_task_instance_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_callback"),
    )
    op.create_index(
        "ix_callback_open",
        "callback",
        ["id"],
        unique=False,
        postgresql_where=sa.text("state IN ('waiting', 'running')"),
    )
    op.create_index("ix_callback_dag_run_id", "callback", ["dag_run_id"], unique=False)
    op.create_index("ix_callback_task_instance_id", "callback", ["task_instance_id"], unique=False)
    op.execute(_CALL_FOR_TASK)
    op.execute(_CALL_FOR_RUN)
    op.execute("""
        CREATE TRIGGER call_back AFTER UPDATE OF state ON task_instance FOR EACH ROW
        WHEN (NEW.callbacks IS NOT NULL AND OLD.state <> NEW.state) EXECUTE FUNCTION call_for_task()
    """)
    op.execute("""
        CREATE TRIGGER call_back AFTER UPDATE OF state ON dag_run FOR EACH ROW
        WHEN (NEW.state IN ('success', 'failed') AND OLD.state <> NEW.state) EXECUTE FUNCTION call_for_run()
    """)
    op.execute("INSERT INTO pool (name, slots, description) VALUES ('default_pool', 128, 'Tasks that name no pool')")
    op.execute("INSERT INTO guard (name) VALUES ('queue')")


def downgrade() -> None:
    op.drop_table("callback")
    op.drop_table("task_attempt")
    op.drop_table("xcom")
    op.drop_table("task_instance")
    op.drop_table("dag_run")
    op.drop_table("backfill")
    op.drop_table("dag")
    op.drop_table("wakeup")
    op.drop_table("process")
    op.drop_table("guard")
    op.drop_table("pool_start")
    op.drop_table("pool")
    op.drop_table("import_error")
    op.drop_table("dag_version")
    op.drop_table("audit_log")
    op.execute("DROP FUNCTION call_for_task, call_for_run")
