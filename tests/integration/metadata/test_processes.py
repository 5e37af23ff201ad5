"""The registry of processes: a row is a term, and a lease that is over is over."""

import pytest
from sqlalchemy import Connection, text

from tests.control import Control, graph
from turnout.metadata import processes, queueing
from turnout.metadata.errors import TermOverError
from turnout.metadata.processes import LoopReport, ProcessKind, Registration, Trouble, WorkerLoad

KINDS: tuple[ProcessKind, ...] = ("scheduler", "worker", "dag_processor")


def state(control: Control, process_id: int) -> str:
    return str(control.sql("SELECT state FROM process WHERE id = :id", id=process_id)[0])


def renew(control: Control, process_id: int, load: WorkerLoad | None = None) -> bool:
    return control.do(lambda c: processes.renew(c, process_id, 60, load))


def test_a_registered_process_says_what_it_is(control: Control) -> None:
    registration = Registration("worker", "w1", 60, queues=["gpu"], pools=["etl"], slots=3)
    process_id = control.do(lambda c: processes.register(c, registration))
    columns = "kind, name, state, queues, pools, slots, pid, version"
    (found,) = control.sql(f"SELECT {columns} FROM process WHERE id = :id", id=process_id)  # noqa: S608
    assert found == ("worker", "w1", "alive", ["gpu"], ["etl"], 3, registration.pid, registration.version)
    assert control.sql("SELECT lease_expires_at - now() FROM process WHERE id = :id", id=process_id)[0].seconds == 59


def test_a_renewal_prolongs_the_lease_and_reports_the_load(control: Control) -> None:
    worker = control.worker(slots=3)
    control.kill(worker)
    assert control.do(queueing.live_workers) == []
    assert renew(control, worker, WorkerLoad(finished_per_s=2.5, load=0.5, memory_mb=100))
    (live,) = control.do(queueing.live_workers)
    assert (live.id, live.slots, live.finished_per_s, live.pools) == (worker, 3, 2.5, None)


def test_the_lease_of_a_term_that_is_over_cannot_be_renewed(control: Control) -> None:
    dead, ended = control.worker(), control.worker()
    control.kill(dead)
    control.do(lambda c: processes.declare_dead(c, KINDS))
    control.do(lambda c: processes.end(c, ended))
    assert (renew(control, dead), renew(control, ended), renew(control, -1)) == (False, False, False)
    assert (state(control, dead), state(control, ended)) == ("dead", "stopped")
    control.do(lambda c: processes.end(c, dead))
    assert state(control, dead) == "dead"


def test_only_those_of_a_kind_whose_lease_is_over_are_declared_dead_and_once(control: Control) -> None:
    over, living = control.worker(), control.worker()
    control.kill(over)
    control.kill(control.scheduler_id)
    assert control.do(lambda c: processes.declare_dead(c, ["worker"])) == [(over, "worker", "w")]
    assert control.do(lambda c: processes.declare_dead(c, ["worker"])) == []
    assert control.do(lambda c: processes.declare_dead(c, [])) == []
    assert (state(control, living), state(control, control.scheduler_id)) == ("alive", "alive")


def test_a_process_that_renews_just_now_is_not_declared_dead(control: Control) -> None:
    worker = control.worker()
    control.kill(worker)
    with control.engine.begin() as connection:
        assert processes.renew(connection, worker, 60)
        assert control.do(lambda c: processes.declare_dead(c, KINDS)) == []
    assert state(control, worker) == "alive"


def test_a_scheduler_reports_what_it_cannot_do_until_it_can(control: Control) -> None:
    odd = Trouble("refused", "check \0 constraint\nDETAIL: a row", 60, {"dag_id": "d"})
    control.do(lambda c: processes.report_loop(c, control.scheduler_id, LoopReport("{}", troubles=[odd])))
    [(trouble, for_s)] = control.sql("""
        SELECT t.trouble - 'since', extract(epoch FROM clock_timestamp() - CAST(t.trouble ->> 'since' AS timestamptz))
        FROM process CROSS JOIN LATERAL jsonb_array_elements(troubles) t (trouble) WHERE kind = 'scheduler'
    """)
    assert trouble == {"what": "refused", "error": "check constraint", "where": {"dag_id": "d"}}
    assert 60 <= for_s < 120
    control.do(lambda c: processes.report_loop(c, control.scheduler_id, LoopReport("{}")))
    assert control.sql("SELECT troubles FROM process WHERE kind = 'scheduler'") == [[]]


def test_a_scheduler_reports_its_last_loop(control: Control) -> None:
    report = LoopReport('{"queued": 3}', did_s_ago=60, ended_s_ago=5)
    control.do(lambda c: processes.report_loop(c, control.scheduler_id, report))
    [(did, ended_s_ago, did_s_ago)] = control.sql("""
        SELECT last_loop, extract(epoch FROM clock_timestamp() - last_loop_at),
               extract(epoch FROM last_loop_at - CAST(last_loop ->> 'at' AS timestamptz)) FROM process
    """)
    assert did["queued"] == 3
    assert ended_s_ago >= 5
    assert round(did_s_ago) == 55


def test_terms_that_ended_long_ago_are_forgotten_unless_something_active_names_them(control: Control) -> None:
    worker, needed, old, recent = (control.worker() for _ in range(4))
    control.prepare(graph("d", {"a": []}))
    control.claim(control.queue().messages, needed)
    control.sql("UPDATE process SET state = 'dead', ended_at = now() WHERE id <> :id", id=worker)
    control.sql("UPDATE process SET ended_at = now() - interval '2 h' WHERE id <> :id", id=recent)
    assert control.do(lambda c: processes.forget_old(c, 3600)) == 1
    left = control.sql("SELECT id FROM process ORDER BY id")
    assert left == [control.scheduler_id, worker, needed, recent]
    assert old not in left


def test_a_transaction_that_wrote_something_counts_only_within_the_term(control: Control) -> None:
    def write(connection: Connection) -> None:
        connection.execute(text("UPDATE pool SET slots = slots + 1"))
        processes.fence(connection, control.scheduler_id)

    control.do(write)
    control.kill(control.scheduler_id)
    with pytest.raises(TermOverError):
        control.do(write)
    control.do(lambda c: processes.declare_dead(c, KINDS))
    with pytest.raises(TermOverError):
        control.do(write)
    assert control.sql("SELECT slots FROM pool") == [129]


def test_a_transaction_that_wrote_nothing_asks_for_no_term_and_takes_no_lock(control: Control) -> None:
    def read(connection: Connection) -> object:
        processes.fence(connection, -1)
        return connection.scalar(text("SELECT pg_current_xact_id_if_assigned()"))

    assert control.do(read) is None


def test_nobody_is_declared_dead_between_its_fence_and_its_commit_but_may_renew(control: Control) -> None:
    with control.engine.begin() as connection:
        connection.execute(text("UPDATE pool SET slots = 1"))
        processes.fence(connection, control.scheduler_id)
        assert renew(control, control.scheduler_id)
        control.kill(control.scheduler_id)
        assert control.do(lambda c: processes.declare_dead(c, KINDS)) == []
    assert control.do(lambda c: processes.declare_dead(c, KINDS)) == [(control.scheduler_id, "scheduler", "test")]


def test_a_transaction_is_refused_while_its_process_is_being_declared_dead(control: Control) -> None:
    def write(connection: Connection) -> None:
        connection.execute(text("UPDATE pool SET slots = 1"))
        processes.fence(connection, control.scheduler_id)

    control.kill(control.scheduler_id)
    with control.engine.begin() as connection:
        processes.declare_dead(connection, KINDS)
        with pytest.raises(TermOverError):
            control.do(write)
