"""The critical section: which of the waiting task instances are queued now.

Only schedulers raise the use of a limit, and only while they hold the row that guards it: the row of each pool, of the
run for `max_active_tasks` and `max_active_tis_per_dagrun`, of the DAG for `max_active_tis_per_dag`, and the guard for
`parallelism`. What is in use is read in a statement after the one that took the lock, whose snapshot therefore holds
all that earlier owners of the lock had committed. No lock but the guard, which comes first, is waited for.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from turnout.metadata.identity import new_attempt_id
from turnout.metadata.messages import AttemptMessage

#: How many waiting task instances are looked at to see how many there are.
_WAITING_SEEN = 2_000
#: How long a scheduler waits for one that is choosing: many times as long as that takes, unless it stands still.
_GUARD_PATIENCE_MS = 250


@dataclass(frozen=True)
class Waiting:
    """What waits for a slot, by pool and queue name, and how many schedulers are there to choose."""

    counts: Mapping[tuple[str, str], int]
    is_cut: bool  # there are more
    schedulers: int


@dataclass(frozen=True)
class LockedPool:
    """A pool whose row this transaction holds."""

    name: str
    slots: int
    has_rate: bool = False


@dataclass(frozen=True)
class LockedPools:
    """The pools of a pass: those that this transaction has, and those that it left to other schedulers."""

    locked: Sequence[LockedPool] = ()
    elsewhere: frozenset[str] = frozenset()
    is_contended: bool = False  # it would have taken more of them


@dataclass(frozen=True)
class LiveWorker:
    """A worker that holds its lease and takes work, and what it could take."""

    id: int
    queues: frozenset[str]
    pools: frozenset[str] | None  # None: all
    slots: int
    finished_per_s: float


@dataclass(frozen=True)
class ActiveCount:
    """How many attempts of a Celery queue are queued, or run on one worker, and the pool slots that they use.

    Slots that are used without an attempt of their own (of further pools, or by deferred task instances) come with
    no queue.
    """

    pool: str
    queue: str | None
    worker_id: int | None  # None: queued, not yet claimed
    attempts: int
    pool_slots: int


@dataclass(frozen=True)
class Candidate:
    """A task instance that waits for a slot."""

    id: int
    dag_run_id: int
    dag_id: str
    task_id: str
    pool: str
    queue: str
    pools: Mapping[str, int]  # the slots that it needs of each
    max_active_tasks: int
    max_active_tis_per_dag: int | None
    max_active_tis_per_dagrun: int | None

    @property
    def line(self) -> tuple[str, str]:
        """The pool and the queue name in which it waits."""
        return self.pool, self.queue


@dataclass(frozen=True)
class Excluded:
    """What cannot be queued in this pass, whatever is free."""

    runs: Collection[int] = ()
    tasks: Collection[tuple[str, str]] = ()  # (dag id, task id)
    run_tasks: Collection[tuple[int, str]] = ()  # (run, task id)
    ids: Collection[int] = ()


@dataclass(frozen=True)
class Lifted:
    """What an explanation takes for lifted, to see what would be queued then."""

    dag_id: str | None = None  # as if it were not paused
    pools: Collection[str] = ()  # as if they had any number of slots


#: The index has them in no order that costs anything: which ones are seen does not matter.
_WAITING = text("""
    SELECT w.pool, w.queue, count(*) AS waiting,
           (SELECT count(*) FROM process
            WHERE kind = 'scheduler' AND state = 'alive' AND lease_expires_at > clock_timestamp()) AS schedulers
    FROM (
        SELECT t.pool, t.queue FROM task_instance t JOIN dag d ON d.dag_id = t.dag_id
        WHERE t.state = 'scheduled' AND NOT d.is_paused LIMIT :most
    ) w
    GROUP BY w.pool, w.queue
""")

_SET_LOCK_TIMEOUT = text("SELECT set_config('lock_timeout', CAST(:timeout AS text), true)")

_GUARD = text("SELECT name FROM guard WHERE name = 'queue' FOR NO KEY UPDATE")

#: With a share, a random choice: so no pool waits for long, and each scheduler takes what others leave.
_LOCK_POOLS = text("""
    WITH work AS MATERIALIZED (
        SELECT p.name FROM pool p
        WHERE EXISTS (SELECT 1 FROM task_instance t WHERE t.state = 'scheduled' AND t.pool = p.name)
    ), locked AS (
        SELECT p.name, p.slots, p.rate_starts FROM pool p
        WHERE p.name IN (SELECT name FROM work)
        ORDER BY CASE WHEN CAST(:schedulers AS int) > 1 THEN random() END, p.name
        LIMIT (SELECT ceil(count(*) / CAST(:schedulers AS numeric)) FROM work)
        FOR NO KEY UPDATE OF p SKIP LOCKED
    )
    SELECT w.name, l.slots, l.rate_starts IS NOT NULL AS has_rate,
           EXISTS (
               SELECT 1 FROM task_instance t
               WHERE t.state = 'scheduled' AND t.extra_pools IS NOT NULL AND t.pool = w.name
           ) AS has_partners
    FROM work w LEFT JOIN locked l ON l.name = w.name
    ORDER BY w.name
""")

_POOLS = text("SELECT name, slots, rate_starts IS NOT NULL AS has_rate FROM pool ORDER BY name")

_LOCK_PARTNERS = text("""
    WITH partners AS MATERIALIZED (
        SELECT DISTINCT p.name FROM task_instance t
        CROSS JOIN LATERAL jsonb_object_keys(t.extra_pools) e JOIN pool p ON p.name = e
        WHERE t.state = 'scheduled' AND t.extra_pools IS NOT NULL AND t.pool = ANY(:pools) AND p.name <> ALL(:pools)
    ), locked AS (
        SELECT p.name, p.slots, p.rate_starts FROM pool p
        WHERE p.name IN (SELECT name FROM partners)
        ORDER BY p.name
        FOR NO KEY UPDATE OF p SKIP LOCKED
    )
    SELECT w.name, l.slots, l.rate_starts IS NOT NULL AS has_rate
    FROM partners w LEFT JOIN locked l ON l.name = w.name
    ORDER BY w.name
""")

#: A worker that takes nothing new is none for this; of the others those queues count that are not paused.
_WORKERS = text("""
    SELECT id, ARRAY(
               SELECT q FROM unnest(queues) q WHERE NOT EXISTS (SELECT FROM paused_queue p WHERE p.queue = q)
           ) AS queues, pools, slots, COALESCE(finished_per_s, 0) AS finished_per_s
    FROM process w
    WHERE kind = 'worker' AND state = 'alive' AND lease_expires_at > clock_timestamp() AND closed_for IS NULL
      AND NOT EXISTS (SELECT FROM drained_worker d WHERE d.name = w.name)
""")

_ACTIVE = text("""
    SELECT pool, queue, CASE WHEN state = 'running' THEN worker_id END AS worker_id,
           count(*) AS attempts, sum(pool_slots) AS pool_slots
    FROM task_instance
    WHERE state IN ('queued', 'running')
    GROUP BY 1, 2, 3
    UNION ALL
    SELECT e.key, NULL, NULL, 0, sum(CAST(e.value AS int))
    FROM task_instance t CROSS JOIN LATERAL jsonb_each_text(t.extra_pools) e
    WHERE t.state IN ('queued', 'running')
    GROUP BY e.key
    UNION ALL
    SELECT p.name, NULL, NULL, 0, sum(CAST(e.value AS int))
    FROM task_instance t
    CROSS JOIN LATERAL jsonb_each_text(COALESCE(t.extra_pools, '{}') || jsonb_build_object(t.pool, t.pool_slots)) e
    JOIN pool p ON p.name = e.key AND p.include_deferred
    WHERE t.state = 'deferred'
    GROUP BY p.name
""")

#: The order of the line, and the condition for `b` to stand before `t` in it.
ORDER_OF_THE_LINE = "{0}.run_priority DESC, {0}.priority_weight DESC, {0}.run_date, {0}.id"
STANDS_BEFORE = """
    (-CAST(b.run_priority AS bigint), -CAST(b.priority_weight AS bigint), b.run_date, b.id)
    < (-CAST(t.run_priority AS bigint), -CAST(t.priority_weight AS bigint), t.run_date, t.id)
"""

_CANDIDATES_OF = """
    SELECT t.* FROM unnest(CAST(:pools AS text[]), CAST(:queues AS text[]), CAST(:limits AS bigint[]))
         AS q (pool, queue, most)
    CROSS JOIN LATERAL (
        SELECT s.id, s.dag_run_id, s.dag_id, s.task_id, s.pool, s.queue, s.pool_slots, s.extra_pools,
               s.max_active_tis_per_dag, s.max_active_tis_per_dagrun, d.max_active_tasks,
               s.run_priority, s.priority_weight, s.run_date
        FROM task_instance s JOIN dag d ON d.dag_id = s.dag_id LEFT JOIN pool p ON p.name = s.pool
        WHERE s.state = 'scheduled' AND s.pool = q.pool AND s.queue = q.queue AND {condition}
          AND s.dag_run_id <> ALL(:runs) AND s.id <> ALL(:ids)
          AND (s.max_active_tis_per_dag IS NULL OR NOT EXISTS (
              SELECT 1 FROM unnest(CAST(:dag_ids AS text[]), CAST(:task_ids AS text[])) AS e (dag_id, task_id)
              WHERE e.dag_id = s.dag_id AND e.task_id = s.task_id
          ))
          AND (s.max_active_tis_per_dagrun IS NULL OR NOT EXISTS (
              SELECT 1 FROM unnest(CAST(:task_runs AS bigint[]), CAST(:run_task_ids AS text[])) AS e (run, task_id)
              WHERE e.run = s.dag_run_id AND e.task_id = s.task_id
          ))
        ORDER BY {order}
        LIMIT q.most
    ) t
    ORDER BY {order_of_all}
"""
_CANDIDATES = text(
    _CANDIDATES_OF.format(
        condition="NOT d.is_paused AND s.pool_slots <= p.slots",
        order=ORDER_OF_THE_LINE.format("s"),
        order_of_all=ORDER_OF_THE_LINE.format("t"),
    )
)
#: As if a DAG were not paused, and some pools had any number of slots: what would be chosen then.
_CANDIDATES_IF = text(
    _CANDIDATES_OF.format(
        condition="""(NOT d.is_paused OR d.dag_id = :lifted_dag)
          AND (s.pool_slots <= p.slots OR s.pool = ANY(:lifted_pools))""",
        order=ORDER_OF_THE_LINE.format("s"),
        order_of_all=ORDER_OF_THE_LINE.format("t"),
    )
)

_LOCK_RUNS = text("SELECT id FROM dag_run WHERE id = ANY(:runs) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED")

_LOCK_DAGS = text("SELECT dag_id FROM dag WHERE dag_id = ANY(:dag_ids) ORDER BY dag_id FOR NO KEY UPDATE SKIP LOCKED")

_ACTIVE_OF_RUNS = text("""
    SELECT dag_run_id, count(*) AS active FROM task_instance
    WHERE state IN ('queued', 'running') AND dag_run_id = ANY(:runs)
    GROUP BY dag_run_id
""")

_ACTIVE_OF_TASKS = text("""
    SELECT t.dag_run_id, t.dag_id, t.task_id, count(*) AS active
    FROM unnest(CAST(:dag_ids AS text[]), CAST(:task_ids AS text[])) AS n (dag_id, task_id)
    JOIN task_instance t ON t.dag_id = n.dag_id AND t.task_id = n.task_id
    WHERE t.state IN ('queued', 'running')
    GROUP BY 1, 2, 3
""")

_QUEUE = text("""
    WITH chosen AS (
        SELECT t.*, c.attempt_id AS new_attempt_id
        FROM unnest(CAST(:ids AS bigint[]), CAST(:attempts AS uuid[])) AS c (id, attempt_id)
        JOIN task_instance t ON t.id = c.id
        WHERE t.state = 'scheduled'
          AND EXISTS (
              SELECT 1 FROM process p
              WHERE p.id = :scheduler_id AND p.state = 'alive' AND p.lease_expires_at > clock_timestamp()
          )
        ORDER BY t.id
        FOR UPDATE OF t
    ), archived AS (
        INSERT INTO task_attempt (attempt_id, task_instance_id, try_number, queue, queued_at, started_at, ended_at,
                                  scheduler_id, worker_id, outcome, cause, error)
        SELECT attempt_id, id, try_number, queue, queued_at, started_at, ended_at, scheduler_id, worker_id, outcome,
               cause, error
        FROM chosen WHERE attempt_id IS NOT NULL
    ), queued AS (
        UPDATE task_instance t
        SET state = 'queued', attempt_id = c.new_attempt_id, queued_at = clock_timestamp(),
            scheduler_id = :scheduler_id, worker_id = NULL, started_at = NULL, ended_at = NULL, next_try_at = NULL,
            outcome = NULL, cause = NULL, error = NULL
        FROM chosen c WHERE t.id = c.id AND t.state = 'scheduled'
        RETURNING t.id, t.attempt_id, t.dag_id, t.dag_run_id, t.task_id, t.map_index, t.try_number, t.pool, t.queue
    )
    SELECT q.id, q.attempt_id, q.dag_id, r.run_id, q.task_id, q.map_index, q.try_number + 1 AS try_number, q.pool,
           q.queue
    FROM queued q JOIN dag_run r ON r.id = q.dag_run_id
""")


def count_waiting(connection: Connection) -> Waiting:
    """Count what waits for a slot, up to a number beyond which it is many."""
    rows = connection.execute(_WAITING, {"most": _WAITING_SEEN}).all()
    counts = {(row.pool, row.queue): row.waiting for row in rows}
    return Waiting(counts, sum(counts.values()) == _WAITING_SEEN, rows[0].schedulers if rows else 0)


def enter_guard(connection: Connection) -> bool:
    """Wait until no other scheduler chooses; false when one has been at it for so long that it must stand still."""
    connection.execute(_SET_LOCK_TIMEOUT, {"timeout": f"{_GUARD_PATIENCE_MS}ms"})
    is_ours = True
    try:
        with connection.begin_nested():
            connection.execute(_GUARD)
    except OperationalError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
        is_ours = False
    connection.execute(_SET_LOCK_TIMEOUT, {"timeout": "0"})
    return is_ours


def lock_pools_with_work(connection: Connection, schedulers: int = 1) -> LockedPools:
    """Lock pools that have waiting task instances, and the further pools that these need, unless others hold them.

    Args:
        connection: the transaction.
        schedulers: how many share the pools at this moment: each takes its part; 1 to take all.
    """
    work = list(connection.execute(_LOCK_POOLS, {"schedulers": max(1, schedulers)}))
    locked = [row for row in work if row.slots is not None]
    is_contended = len(locked) < math.ceil(len(work) / max(1, schedulers))
    if any(row.has_partners for row in locked):
        work += connection.execute(_LOCK_PARTNERS, {"pools": [row.name for row in locked]}).all()
    return LockedPools(
        [LockedPool(row.name, row.slots, row.has_rate) for row in work if row.slots is not None],
        frozenset(row.name for row in work if row.slots is None),
        is_contended,
    )


def read_pools(connection: Connection) -> list[LockedPool]:
    """Read all pools as `lock_pools_with_work` does, but lock none."""
    return [LockedPool(**row) for row in connection.execute(_POOLS).mappings()]


def live_workers(connection: Connection) -> list[LiveWorker]:
    """List the workers that hold their lease and take work, each with those of its queues that are not paused."""
    return [
        LiveWorker(
            id=row.id,
            queues=frozenset(row.queues or ()),
            pools=None if row.pools is None else frozenset(row.pools),
            slots=row.slots or 0,
            finished_per_s=row.finished_per_s,
        )
        for row in connection.execute(_WORKERS)
    ]


def count_active(connection: Connection) -> list[ActiveCount]:
    """Count what occupies slots; read it after the pools are locked."""
    return [
        ActiveCount(row.pool, row.queue, row.worker_id, row.attempts, int(row.pool_slots))
        for row in connection.execute(_ACTIVE)
    ]


def read_candidates(
    connection: Connection, limits: Sequence[tuple[str, str, int]], excluded: Excluded, lifted: Lifted | None = None
) -> list[Candidate]:
    """Read the first waiting task instances of each (pool, queue, most), in the order in which they may start.

    The order is one for all pools, since workers may be shared by them. Left out are those of paused DAGs, and those
    that need more slots than their pool has in all; both only as far as nothing is lifted.
    """
    if not limits:
        return []
    pools, queues, most = zip(*limits, strict=True)
    rows = connection.execute(
        _CANDIDATES if lifted is None else _CANDIDATES_IF,
        {
            **({} if lifted is None else {"lifted_dag": lifted.dag_id, "lifted_pools": list(lifted.pools)}),
            "pools": list(pools),
            "queues": list(queues),
            "limits": list(most),
            "runs": list(excluded.runs),
            "ids": list(excluded.ids),
            "dag_ids": [dag_id for dag_id, _ in excluded.tasks],
            "task_ids": [task_id for _, task_id in excluded.tasks],
            "task_runs": [run for run, _ in excluded.run_tasks],
            "run_task_ids": [task_id for _, task_id in excluded.run_tasks],
        },
    )
    return [
        Candidate(
            id=row.id,
            dag_run_id=row.dag_run_id,
            dag_id=row.dag_id,
            task_id=row.task_id,
            pool=row.pool,
            queue=row.queue,
            pools={**(row.extra_pools or {}), row.pool: row.pool_slots},
            max_active_tasks=row.max_active_tasks,
            max_active_tis_per_dag=row.max_active_tis_per_dag,
            max_active_tis_per_dagrun=row.max_active_tis_per_dagrun,
        )
        for row in rows
    ]


def lock_runs(connection: Connection, runs: Collection[int]) -> dict[int, int]:
    """Lock runs that no other scheduler holds; return how many task instances of each are active."""
    locked = list(connection.scalars(_LOCK_RUNS, {"runs": list(runs)})) if runs else []
    if not locked:
        return {}
    return count_active_of_runs(connection, locked)


def count_active_of_runs(connection: Connection, runs: Collection[int]) -> dict[int, int]:
    """Count the active task instances of runs."""
    active = {row.dag_run_id: row.active for row in connection.execute(_ACTIVE_OF_RUNS, {"runs": list(runs)})}
    return {run: active.get(run, 0) for run in runs}


def lock_dags(connection: Connection, dag_ids: Collection[str]) -> set[str]:
    """Lock DAGs that no other scheduler holds, on behalf of what is limited over all their runs."""
    return set(connection.scalars(_LOCK_DAGS, {"dag_ids": list(dag_ids)})) if dag_ids else set()


def count_active_of_tasks(
    connection: Connection, tasks: Collection[tuple[str, str]]
) -> dict[tuple[int, str, str], int]:
    """Count the active instances of tasks by (run, dag id, task id); read it after their rows are locked."""
    if not tasks:
        return {}
    dag_ids, task_ids = zip(*tasks, strict=True)
    rows = connection.execute(_ACTIVE_OF_TASKS, {"dag_ids": list(dag_ids), "task_ids": list(task_ids)})
    return {(row.dag_run_id, row.dag_id, row.task_id): row.active for row in rows}


def queue_scheduled(connection: Connection, scheduler_id: int, ids: Sequence[int]) -> list[AttemptMessage]:
    """Queue task instances: `scheduled` → `queued`, each with a new attempt id; archive the attempts before.

    Returns:
        The messages to publish once this transaction is committed, in the order given; nothing when the scheduler's
        term is over.
    """
    if not ids:
        return []
    rows = connection.execute(
        _QUEUE,
        {"scheduler_id": scheduler_id, "ids": list(ids), "attempts": [new_attempt_id() for _ in ids]},
    ).all()
    place = {id_: number for number, id_ in enumerate(ids)}
    return [
        AttemptMessage(
            task_instance_id=row.id,
            attempt_id=row.attempt_id,
            dag_id=row.dag_id,
            run_id=row.run_id,
            task_id=row.task_id,
            map_index=row.map_index,
            try_number=row.try_number,
            pool=row.pool,
            queue=row.queue,
        )
        for row in sorted(rows, key=lambda row: place[row.id])
    ]
