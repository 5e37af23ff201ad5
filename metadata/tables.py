"""The tables of the metadata database.

Indexes of the hot table `task_instance` are partial, so that finished rows cost nothing: the loop of a scheduler only
ever reads rows that are waiting or active.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSON, JSONB
from sqlalchemy.sql.type_api import TypeEngine

from turnout.metadata.states import ACTIVE, UNFINISHED, CallbackState, Outcome, RunState, TaskEvent, TaskState

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

PROCESS_KINDS = ("scheduler", "worker", "dag_processor")
#: Whoever wanted it, a run is one thing; its type says who did (the words are those of Airflow's API).
RUN_TYPES = ("scheduled", "manual", "backfill", "operator_triggered", "asset_triggered")


def sql_list(values: Iterable[str]) -> str:
    """Write values as the inside of an SQL `IN (…)`, in a fixed order."""
    return ", ".join(f"'{value}'" for value in sorted(values))


def _one_of(column: str, values: Iterable[str]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({sql_list(values)})", name=f"{column}_known")


def _id() -> Column[int]:
    return Column("id", BigInteger, Identity(always=True), primary_key=True)


def _time(name: str, *, required: bool = False) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=not required, server_default=func.now() if required else None)


def _required(name: str, kind: TypeEngine[Any], default: str | None = None) -> Column[Any]:
    return Column(name, kind, nullable=False, server_default=text(default) if default else None)


dag = Table(
    "dag",
    metadata,
    Column("dag_id", Text, primary_key=True),
    _required("is_paused", Boolean()),
    _required("is_active", Boolean(), "true"),  # its file still declares it
    _required("file_path", Text()),  # relative to the DAGs folder
    Column("current_version_id", BigInteger, ForeignKey("dag_version.id")),
    _required("max_active_runs", Integer()),
    _required("max_active_tasks", Integer(), "16"),  # of one run
    _required("tags", ARRAY(Text), "'{}'"),
    Column("description", Text),
    Column("callbacks", ARRAY(Text)),  # the events of its runs that it has callbacks for
    _time("parsed_at"),
    # From when on its timetable counts, as it is: unpaused, first seen, or changed. What came due earlier was missed.
    _time("scheduled_since", required=True),
    _required("plan_is_open", Boolean(), "false"),  # its author's timetable has more runs than are planned ahead
    _required("backfill_turn", REAL(), "0"),  # how much of a start is due to its backfills; at 1 it is their turn
    # The next run that the timetable will create, and the moment from which it may.
    _time("next_logical_date"),
    _time("next_interval_start"),
    _time("next_interval_end"),
    _time("next_run_after"),
    Index("ix_dag_due", "next_run_after", postgresql_where=text("is_active AND NOT is_paused")),
)

#: The next runs of timetables that only their authors' code can compute, planned ahead by the DAG processor.
planned_run = Table(
    "planned_run",
    metadata,
    Column("dag_id", Text, ForeignKey("dag.dag_id", ondelete="CASCADE"), primary_key=True),
    Column("interval_start", DateTime(timezone=True), primary_key=True),
    Column("interval_end", DateTime(timezone=True), nullable=False),
    Column("run_after", DateTime(timezone=True), nullable=False),
)

dag_version = Table(
    "dag_version",
    metadata,
    _id(),
    _required("dag_id", Text()),
    _required("version_number", Integer()),
    _required("content_hash", Text()),
    _required("content", JSONB()),
    _time("created_at", required=True),
    UniqueConstraint("dag_id", "content_hash"),
    UniqueConstraint("dag_id", "version_number"),
)

import_error = Table(
    "import_error",
    metadata,
    Column("file_path", Text, primary_key=True),
    _required("message", Text()),
    Column("line", Integer),
    _time("at", required=True),
)

backfill = Table(
    "backfill",
    metadata,
    _id(),
    Column("dag_id", Text, ForeignKey("dag.dag_id", ondelete="CASCADE"), nullable=False),
    Column("from_date", DateTime(timezone=True), nullable=False),
    Column("to_date", DateTime(timezone=True), nullable=False),
    _time("created_at", required=True),
    _time("completed_at"),
)

dag_run = Table(
    "dag_run",
    metadata,
    _id(),
    Column("dag_id", Text, ForeignKey("dag.dag_id", ondelete="CASCADE"), nullable=False),
    _required("run_id", Text()),
    _required("run_type", Text()),
    _required("state", Text(), "'queued'"),
    Column("dag_version_id", BigInteger, ForeignKey("dag_version.id")),
    Column("backfill_id", BigInteger, ForeignKey("backfill.id")),
    _time("logical_date"),
    _time("data_interval_start"),
    _time("data_interval_end"),
    _time("run_after", required=True),
    _time("queued_at", required=True),
    _time("started_at"),
    _time("ended_at"),
    _time("timeout_at"),  # of a running run: when its `dagrun_timeout` is over
    _required("priority", Integer(), "0"),  # its tasks go before those of all runs of lower priority
    _required("conf", JSONB(), "'{}'"),
    UniqueConstraint("dag_id", "run_id"),
    UniqueConstraint("dag_id", "logical_date"),
    _one_of("state", RunState),
    _one_of("run_type", RUN_TYPES),
    Index("ix_dag_run_active", "dag_id", "state", "run_after", postgresql_where=text("state IN ('queued', 'running')")),
    # The order in which runs start: those of a backfill, and all others.
    Index(
        "ix_dag_run_queued",
        "dag_id",
        text("priority DESC"),
        "run_after",
        "id",
        postgresql_where=text("state = 'queued' AND run_type <> 'backfill'"),
    ),
    Index(
        "ix_dag_run_queued_backfill",
        "dag_id",
        text("priority DESC"),
        "run_after",
        "id",
        postgresql_where=text("state = 'queued' AND run_type = 'backfill'"),
    ),
    Index("ix_dag_run_due", "run_after", postgresql_where=text("state = 'queued'")),
    Index(
        "ix_dag_run_open",
        "dag_id",
        postgresql_where=text("run_type = 'scheduled' AND state IN ('queued', 'running')"),
    ),
    Index("ix_dag_run_scheduled", "dag_id", "logical_date", postgresql_where=text("run_type = 'scheduled'")),
    Index("ix_dag_run_timeout", "timeout_at", postgresql_where=text("state = 'running' AND timeout_at IS NOT NULL")),
)

task_instance = Table(
    "task_instance",
    metadata,
    _id(),
    Column("dag_run_id", BigInteger, ForeignKey("dag_run.id", ondelete="CASCADE"), nullable=False),
    _required("dag_id", Text()),
    _required("task_id", Text()),
    _required("map_index", Integer(), "-1"),
    _required("state", Text(), "'none'"),
    Column("attempt_id", Uuid),  # the attempt that owns this row; also the Celery task id
    _required("try_number", Integer(), "0"),  # attempts started
    _required("infra_failures", Integer(), "0"),  # those of them that were lost through no fault of the task
    _required("max_tries", Integer(), "0"),  # retries that the author allowed
    _required("pool", Text()),
    _required("pool_slots", Integer()),
    Column("extra_pools", JSONB),  # further pools that it takes slots of at the same time: {name: slots}
    _required("queue", Text()),
    Column("callbacks", ARRAY(Text)),  # the events that its task has callbacks for
    # The order in which task instances are queued: these two, then run_date, then id.
    _required("run_priority", Integer(), "0"),  # that of its run
    _required("priority_weight", Integer()),
    _time("run_date", required=True),  # the run's logical date (or run_after); of a backfill, when it started
    Column("max_active_tis_per_dag", Integer),  # how many instances of its task may be active in all runs
    Column("max_active_tis_per_dagrun", Integer),  # ... in one run
    _time("scheduled_at"),
    _time("queued_at"),
    _time("started_at"),
    _time("ended_at"),
    _time("next_try_at"),
    Column("scheduler_id", BigInteger),  # the process that queued it
    Column("worker_id", BigInteger),  # the process that claimed it
    # How the last attempt ended.
    Column("outcome", Text),
    Column("cause", Text),
    Column("error", Text),
    UniqueConstraint("dag_run_id", "task_id", "map_index"),
    _one_of("state", TaskState),
    _one_of("outcome", Outcome),
    CheckConstraint("state NOT IN ('queued', 'running') OR attempt_id IS NOT NULL", name="active_has_attempt"),
    CheckConstraint(
        "state <> 'running' OR (worker_id IS NOT NULL AND started_at IS NOT NULL)", name="running_has_worker"
    ),
    CheckConstraint(
        "state NOT IN ('up_for_retry', 'up_for_reschedule') OR next_try_at IS NOT NULL", name="waiting_has_time"
    ),
    CheckConstraint("pool_slots >= 1", name="pool_slots_positive"),
    Index(
        "ix_task_instance_scheduled",
        "pool",
        "queue",
        text("run_priority DESC"),
        text("priority_weight DESC"),
        "run_date",
        "id",
        postgresql_where=text("state = 'scheduled'"),
    ),
    Index("ix_task_instance_active", "dag_run_id", postgresql_where=text(f"state IN ({sql_list(ACTIVE)})")),
    Index("ix_task_instance_deferred", "pool", postgresql_where=text("state = 'deferred'")),
    Index(
        "ix_task_instance_partners",
        "pool",
        postgresql_where=text("state = 'scheduled' AND extra_pools IS NOT NULL"),
    ),
    Index("ix_task_instance_unfinished", "dag_run_id", postgresql_where=text(f"state IN ({sql_list(UNFINISHED)})")),
    Index(
        "ix_task_instance_due",
        "next_try_at",
        postgresql_where=text("state IN ('up_for_retry', 'up_for_reschedule')"),
    ),
)

#: Earlier attempts: a row arrives when its task instance is queued anew, so the happy path never writes one.
task_attempt = Table(
    "task_attempt",
    metadata,
    Column("attempt_id", Uuid, primary_key=True),
    Column("task_instance_id", BigInteger, ForeignKey("task_instance.id", ondelete="CASCADE"), nullable=False),
    _required("try_number", Integer()),
    _required("queue", Text()),
    _time("queued_at"),
    _time("started_at"),
    _time("ended_at"),
    Column("scheduler_id", BigInteger),
    Column("worker_id", BigInteger),
    Column("outcome", Text),
    Column("cause", Text),
    Column("error", Text),
    _one_of("outcome", Outcome),
    Index("ix_task_attempt_task_instance_id", "task_instance_id"),
)

#: What callbacks are to be run: a row is made by the transition that calls for them, by triggers of `task_instance` and
#: `dag_run`, so that no transition is without its row, whoever made it and however it died right after.
callback = Table(
    "callback",
    metadata,
    _id(),
    Column("dag_run_id", BigInteger, ForeignKey("dag_run.id", ondelete="CASCADE"), nullable=False),
    Column("task_instance_id", BigInteger, ForeignKey("task_instance.id", ondelete="CASCADE")),  # null: of the run
    _required("event", Text()),
    _required("state", Text(), "'waiting'"),
    _required("tries", Integer(), "0"),  # how often a worker has started it; more than once if one was lost meanwhile
    # What the transition led to.
    _required("subject_state", Text()),
    Column("attempt_id", Uuid),
    _required("try_number", Integer(), "0"),  # lost attempts not counted
    _time("started_at"),
    _time("ended_at"),
    Column("error", Text),
    # How the callback itself went.
    _time("created_at", required=True),
    _time("called_at"),
    _time("done_at"),
    Column("worker_id", BigInteger),
    Column("problem", Text),  # why it failed
    Column("log", Text),  # what it said, as the lines of a log
    _one_of("event", TaskEvent),
    _one_of("state", CallbackState),
    Index("ix_callback_open", "id", postgresql_where=text("state IN ('waiting', 'running')")),
    Index("ix_callback_dag_run_id", "dag_run_id"),
    Index("ix_callback_task_instance_id", "task_instance_id"),
)

#: Where to look: rows left by whoever changed something that a decision depends on.
wakeup = Table(
    "wakeup",
    metadata,
    _id(),
    _required("dag_run_id", BigInteger()),
    Column("task_id", Text),  # the task that has news; null: look at the whole run
    Index("ix_wakeup_dag_run_id", "dag_run_id"),
)

xcom = Table(
    "xcom",
    metadata,
    Column("dag_run_id", BigInteger, ForeignKey("dag_run.id", ondelete="CASCADE"), primary_key=True),
    Column("task_id", Text, primary_key=True),
    Column("map_index", Integer, primary_key=True),
    Column("key", Text, primary_key=True),
    _required("value", JSON()),
    _time("created_at", required=True),
)

pool = Table(
    "pool",
    metadata,
    Column("name", Text, primary_key=True),
    _required("slots", Integer()),
    Column("description", Text),
    _required("include_deferred", Boolean(), "false"),
    # At most so many starts in any period of so many seconds; both null: no limit.
    Column("rate_starts", Integer),
    Column("rate_period_s", REAL),
    CheckConstraint("slots >= 0", name="slots_not_negative"),
    CheckConstraint("(rate_starts IS NULL) = (rate_period_s IS NULL)", name="rate_whole"),
    CheckConstraint("rate_starts >= 1 AND rate_period_s > 0", name="rate_positive"),
)

#: What was started in pools that have a rate limit, for as long as it counts.
pool_start = Table(
    "pool_start",
    metadata,
    _id(),
    Column("pool", Text, ForeignKey("pool.name", ondelete="CASCADE"), nullable=False),
    _time("at", required=True),
    _required("starts", Integer()),
    Index("ix_pool_start_pool", "pool", "at"),
)

#: Rows that are only locked, each for what spans pools and has no row of its own.
guard = Table("guard", metadata, Column("name", Text, primary_key=True))

#: Workers, by name, that take nothing new until a person says otherwise, whoever of that name comes and goes.
drained_worker = Table(
    "drained_worker",
    metadata,
    Column("name", Text, primary_key=True),
    _time("at", required=True),
    _required("actor", Text()),
)

#: Queue names of which nothing is queued, in any pool, until a person says otherwise.
paused_queue = Table(
    "paused_queue",
    metadata,
    Column("queue", Text, primary_key=True),
    _time("at", required=True),
    _required("actor", Text()),
)

#: Live and dead processes; a row is one *term* of a process, which registers anew when it has lost its lease.
process = Table(
    "process",
    metadata,
    _id(),
    _required("kind", Text()),
    _required("state", Text(), "'alive'"),
    _required("name", Text()),
    _required("hostname", Text()),
    _required("pid", Integer()),
    _required("version", Text()),
    _time("started_at", required=True),
    _time("heartbeat_at", required=True),
    _time("lease_expires_at", required=True),
    _time("ended_at"),
    # Of a worker: what it serves (null pools: all of them), and its load at the last heartbeat.
    Column("queues", ARRAY(Text)),
    Column("pools", ARRAY(Text)),
    Column("slots", Integer),
    _required("runs_callbacks", Boolean(), "false"),
    Column("finished_per_s", REAL),
    Column("load", REAL),
    Column("memory_mb", Integer),
    Column("closed_for", Text),  # why it takes nothing new
    # Of a scheduler: when its last loop ended, and what it did.
    _time("last_loop_at"),
    Column("last_loop", JSONB),
    _required("troubles", JSONB(), "'[]'"),  # what it cannot do at this moment: [{what, error, since, where}]
    _one_of("kind", PROCESS_KINDS),
    _one_of("state", ("alive", "stopped", "dead")),
    Index("ix_process_alive", "kind", postgresql_where=text("state = 'alive'")),
)

audit_log = Table(
    "audit_log",
    metadata,
    _id(),
    _time("at", required=True),
    _required("actor", Text()),
    _required("action", Text()),
    Column("dag_id", Text),
    Column("run_id", Text),
    Column("task_id", Text),
    _required("detail", JSONB(), "'{}'"),
    Index("ix_audit_log_at", "at"),
)
