"""A worker as a whole: shutting down, dying, losing its servers, and what its children may see."""

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError

from tests import rows
from tests.integration.executor.conftest import ON_BOTH_BROKERS, Stage, WorkerProcess, eventually
from turnout.metadata import queueing
from turnout.metadata.routing import set_drained

StartWorker = Callable[..., WorkerProcess]


@ON_BOTH_BROKERS
def test_sigterm_lets_running_attempts_finish_and_returns_the_others(stage: Stage, worker: WorkerProcess) -> None:
    gate = stage.settings.home / "gate"
    wait = [f"wait_for:{gate}"]
    ids = stage.publish({"one": wait, "two": wait})
    stage.wait_for_start(2)
    late = stage.publish({"gpu": ["succeed"], "retried": ["succeed"]})
    worker.send(signal.SIGTERM)
    worker.wait_for("worker.draining")
    assert stage.task(late["retried"]).state in ("queued", "scheduled")
    gate.touch()
    assert worker.wait() == 0
    assert {stage.task(ids[name]).state for name in ids} == {"success"}
    assert len(stage.entries("end")) == 2
    assert _states_of_workers(stage) == ["stopped"]


@ON_BOTH_BROKERS
def test_a_second_sigterm_stops_running_attempts_and_hands_them_back(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.publish({"one": ["hang"], "two": ["ignore_sigterm"]})
    starts = stage.wait_for_start(2)
    worker.send(signal.SIGTERM)
    worker.wait_for("worker.draining")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    for task_instance_id in ids.values():
        task = stage.task(task_instance_id)
        assert (task.state, task.outcome, task.cause) == ("scheduled", "lost", "worker_stopped")
    assert not any(psutil.pid_exists(start["pid"]) for start in starts)


def test_an_idle_worker_ends_at_once(stage: Stage, worker: WorkerProcess) -> None:
    worker.send(signal.SIGINT)
    assert worker.wait() == 0
    assert _states_of_workers(stage) == ["stopped"]
    assert stage.broker.depths(["default_pool.default"]) == {"default_pool.default": 0}


@ON_BOTH_BROKERS
def test_nothing_of_a_killed_worker_goes_on_and_nothing_runs_twice(stage: Stage, start_worker: StartWorker) -> None:
    first = start_worker()
    ids = stage.publish({"one": ["hang", "succeed"], "two": ["hang", "succeed"]})
    starts = stage.wait_for_start(2)
    first.send(signal.SIGKILL)
    first.wait()
    eventually(lambda: not any(psutil.pid_exists(start["pid"]) for start in starts))
    second = start_worker()
    stage.broker.publish(_messages_again(stage, ids))
    second.wait_for("attempt.duplicate_dropped", count=2)
    assert len(stage.entries("start")) == 2
    assert {stage.task(task_instance_id).state for task_instance_id in ids.values()} == {"running"}


@pytest.fixture
def short_path() -> Iterator[Path]:
    with TemporaryDirectory(prefix="t", dir="/tmp") as folder:
        yield Path(folder)


def test_a_long_name_of_the_temporary_folder_is_no_obstacle(
    stage: Stage, start_worker: StartWorker, tmp_path: Path
) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    start_worker(TMPDIR=str(folder))
    stage.wait(stage.publish({"one": ["succeed"]})["one"], "success")


def test_what_a_killed_worker_left_in_the_temporary_folder_goes_with_the_next_start(
    stage: Stage, start_worker: StartWorker, short_path: Path
) -> None:
    assert stage
    folders = short_path
    (folders / "turnout-worker-notes-of-somebody").mkdir()
    first = start_worker(TMPDIR=str(folders))
    first.send(signal.SIGKILL)
    first.wait()
    second = start_worker(TMPDIR=str(folders))
    names = sorted(path.name.rpartition("-")[0] for path in folders.glob("turnout-worker-*"))
    assert names == [f"turnout-worker-{second.process.pid}", "turnout-worker-notes-of"]


def test_an_attempt_that_is_no_longer_ours_is_stopped(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.publish({"one": ["hang"], "two": ["ignore_sigterm"]})
    starts = stage.wait_for_start(2)
    with stage.engine.begin() as connection:
        connection.execute(text("UPDATE task_instance SET state = 'failed' WHERE state = 'running'"))
    worker.wait_for("attempt.disowned", count=2)
    eventually(lambda: not psutil.pid_exists(starts[1]["pid"]) or not psutil.pid_exists(starts[0]["pid"]))
    assert {stage.task(task_instance_id).state for task_instance_id in ids.values()} == {"failed"}
    assert stage.wait(stage.publish({"one": ["succeed"]})["one"], "success")


def test_a_worker_that_lost_its_lease_stops_its_attempts_and_begins_a_new_term(
    stage: Stage, worker: WorkerProcess
) -> None:
    ids = stage.publish({"one": ["hang"]})
    stage.wait_for_start()
    with stage.engine.begin() as connection:
        connection.execute(text("UPDATE process SET state = 'dead', ended_at = now() WHERE kind = 'worker'"))
    worker.wait_for("worker.lease_lost")
    worker.wait_for("worker.registered", count=2)
    assert stage.task(ids["one"]).state == "running"  # the reaper's to decide
    again = stage.wait(stage.publish({"two": ["succeed"]})["two"], "success")
    assert again.worker_id != stage.task(ids["one"]).worker_id
    assert _states_of_workers(stage) == ["dead", "alive"]


def test_an_attempt_that_only_the_database_knows_of_is_handed_back(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.insert({"one": ["succeed"]})
    stage.queue(ids["one"])
    with stage.engine.begin() as connection:  # a claim whose commit succeeded, and whose answer was lost
        connection.execute(
            text("""
                UPDATE task_instance SET state = 'running', started_at = now(), try_number = 1,
                       worker_id = (SELECT id FROM process WHERE kind = 'worker')
            """)
        )
    lost = stage.wait(ids["one"], "scheduled")
    assert (lost.outcome, lost.cause) == ("lost", "worker_stopped")
    assert worker.process.poll() is None


def test_outcomes_survive_a_database_that_is_away(stage: Stage, worker: WorkerProcess) -> None:
    gate = stage.settings.home / "gate"
    ids = stage.publish({"one": [f"wait_for:{gate}"]})
    stage.wait_for_start()
    name = str(stage.engine.url.database)
    aside = f"{name}_away"
    stage.engine.dispose()
    _rename_database(stage, name, aside)
    try:
        gate.touch()
        worker.wait_for("outage.began")
        eventually(lambda: stage.entries("end"))
    finally:
        _rename_database(stage, aside, name)
    stage.wait(ids["one"], "success")
    worker.wait_for("outage.over")


def test_children_hold_no_socket_and_see_no_credentials(stage: Stage, worker: WorkerProcess) -> None:
    script = {"one": ["environ"], "two": ["sockets"], "retried": ["os_exit:1", "sockets"]}
    ids = stage.publish(script)
    stage.wait(ids["two"], "success")
    assert len(stage.xcom(ids["two"])) <= 1  # its own line to the main process
    stage.wait(ids["one"], "success")
    assert not {"TURNOUT_DATABASE_URL", "TURNOUT_BROKER_URL"} & set(stage.xcom(ids["one"]))
    stage.wait(ids["retried"], "up_for_retry")
    for child in worker.children():  # one of them was forked later, from a process full of connections
        eventually(lambda child=child: not child.net_connections("all"))


def test_no_process_of_a_worker_shows_its_credentials_to_others_of_the_user(
    stage: Stage, worker: WorkerProcess
) -> None:
    pids = stage.settings.home / "pids"
    stage.publish({"one": ["hang"], "bash": []}, pids=str(pids), command="sleep 3600")
    stage.wait_for_start()
    eventually(pids.exists)
    main = psutil.Process(worker.process.pid)
    for process in (main, *main.children(recursive=True)):
        environ = Path(f"/proc/{process.pid}/environ").read_text()
        assert f"TURNOUT_HOME={stage.settings.home}" in environ, process
        assert stage.settings.database.get_secret_value() not in environ, process
        assert stage.settings.broker.get_secret_value() not in environ, process


def test_a_worker_uses_two_connections_at_most(stage: Stage, start_worker: StartWorker) -> None:
    start_worker("-c", "6")
    pulls = {"one": ["succeed:1"], "two": ["pull:one"], "retried": ["pull:one"], "limited": ["pull:one"]}
    most = 0
    for _ in range(5):
        ids = stage.publish(pulls)
        for task_instance_id in ids.values():
            stage.wait(task_instance_id, "success")
            most = max(most, _connections(stage))
    assert 1 <= most <= 2


@ON_BOTH_BROKERS
def test_a_drained_worker_finishes_what_runs_and_takes_nothing_until_it_is_undrained(
    stage: Stage, start_worker: StartWorker
) -> None:
    worker = start_worker("-c", "2", "-n", "north")
    gate = stage.settings.home / "gate"
    ids = stage.publish({"one": [f"wait_for:{gate}"]})
    stage.wait_for_start(1)
    _drain(stage, "north", drained=True)
    worker.wait_for("worker.closed")
    late = stage.publish({"retried": ["succeed"]})
    gate.touch()
    stage.wait(ids["one"], "success")
    assert stage.task(late["retried"]).state == "queued"
    assert stage.broker.depths(["default_pool.default"]) == {"default_pool.default": 1}
    _drain(stage, "north", drained=False)
    worker.wait_for("worker.opened", count=2)
    stage.wait(late["retried"], "success")


@ON_BOTH_BROKERS
def test_a_worker_that_is_drained_when_it_starts_takes_nothing(stage: Stage, start_worker: StartWorker) -> None:
    start_worker("-n", "north").send(signal.SIGKILL)
    _drain(stage, "north", drained=True)
    worker = start_worker("-c", "2", "-n", "north")
    worker.wait_for("worker.closed")
    ids = stage.publish({"one": ["succeed"]})
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert stage.task(ids["one"]).state == "queued"


def test_a_worker_above_its_limit_takes_nothing_and_says_so(stage: Stage, start_worker: StartWorker) -> None:
    worker = start_worker("-c", "2", TURNOUT_WORKER__MAX_MEMORY_MB="1")
    worker.wait_for("worker.closed")
    ids = stage.publish({"one": ["succeed"]})
    with stage.engine.begin() as connection:
        (reason,) = connection.scalars(text("SELECT closed_for FROM process WHERE kind = 'worker'"))
        assert queueing.live_workers(connection) == []
    assert re.fullmatch(r"memory \d+ MiB, max_memory_mb 1", reason)
    assert stage.task(ids["one"]).state == "queued"


@ON_BOTH_BROKERS
def test_a_pool_that_is_deleted_and_made_again_is_served(stage: Stage, worker: WorkerProcess) -> None:
    for count in (1, 2):
        with stage.engine.begin() as connection:
            connection.execute(text("INSERT INTO pool (name, slots) VALUES ('etl', 1)"))
        worker.wait_for("worker.pools", count=2 * count - 1)
        ids = stage.insert({"one": ["succeed"]})
        with stage.engine.begin() as connection:
            connection.execute(text("UPDATE task_instance SET pool = 'etl' WHERE id = :id"), {"id": ids["one"]})
        stage.broker.publish(stage.queue(ids["one"]))
        stage.wait(ids["one"], "success")
        with stage.engine.begin() as connection:
            connection.execute(text("DELETE FROM pool WHERE name = 'etl'"))
        worker.wait_for("worker.pools", count=2 * count)


@ON_BOTH_BROKERS
def test_children_come_with_the_work_and_go_without_it_when_the_worker_scales(
    stage: Stage, start_worker: StartWorker
) -> None:
    worker = start_worker("--autoscale", "3,1", AUTOSCALE_KEEPALIVE="0.3")
    with stage.engine.begin() as connection:
        assert [live.slots for live in queueing.live_workers(connection)] == [3]
    assert len(worker.children()) == 1
    gates = {name: stage.settings.home / name for name in ("one", "two", "retried")}
    ids = stage.publish({name: [f"wait_for:{gate}"] for name, gate in gates.items()})
    starts = stage.wait_for_start(3)
    assert len({entry["pid"] for entry in starts}) == 3
    for name in ("two", "retried"):
        gates[name].touch()
        stage.wait(ids[name], "success")
    (busy,) = (entry["pid"] for entry in starts if entry["task_id"] == "one")
    eventually(lambda: [child.pid for child in worker.children()] == [busy])
    gates["one"].touch()
    stage.wait(ids["one"], "success")


def test_a_daemon_that_a_task_leaves_behind_ends_with_it(stage: Stage, worker: WorkerProcess) -> None:
    pids = stage.settings.home / "pids"
    ids = stage.publish({"one": [f"leave_daemon:{pids}"]})
    stage.wait(ids["one"], "success")
    assert not psutil.pid_exists(int(pids.read_text()))
    said = [entry.msg for entry in stage.logged("one")]
    assert any(message.startswith("Ended what the task had left running: python") for message in said), said
    again = stage.publish({"one": ["succeed"]})
    stage.wait(again["one"], "success")
    assert {entry["pid"] for entry in stage.entries("start")} <= {child.pid for child in worker.children()}


def test_a_daemon_of_a_task_whose_process_is_killed_ends_with_it(stage: Stage, worker: WorkerProcess) -> None:
    pids = stage.settings.home / "pids"
    ids = stage.publish({"one": [f"leave_daemon_and_die:{pids}", "succeed"]})
    assert stage.wait(ids["one"], "scheduled").cause == "child_killed"
    worker.wait_for("worker.orphans_killed")
    eventually(lambda: not psutil.pid_exists(int(pids.read_text())))


def test_whatever_a_task_does_to_its_process_the_next_one_finds_it_as_it_was(
    stage: Stage, start_worker: StartWorker, short_path: Path
) -> None:
    start_worker("-c", "1")
    found = []
    for actions in ({"one": ["state"]}, {"two": [f"soil:{short_path}"]}, {"one": ["state"]}):
        (task_instance_id,) = stage.publish(actions).values()
        stage.wait(task_instance_id, "success")
        found.append(stage.xcom(task_instance_id))
    assert found[0] == found[2]
    said = [entry.msg for entry in stage.logged("two")]
    assert "The task has left threads running, which nobody can end: left-behind." in said


def test_the_thread_that_masks_output_is_not_told_as_left_behind(stage: Stage, worker: WorkerProcess) -> None:
    assert worker
    ids = stage.publish({"one": ["tell_secret:hush-hush"]})
    stage.wait(ids["one"], "failed")
    assert not [entry.msg for entry in stage.logged("one") if "left" in entry.msg]


def test_a_task_that_has_silenced_logging_still_says_how_it_failed(stage: Stage, start_worker: StartWorker) -> None:
    start_worker("-c", "1")
    for name in ("one", "two"):
        ids = stage.publish({name: ["silence_and_fail:loud enough"]})
        stage.wait(ids[name], "failed")
        assert "RuntimeError: loud enough" in "".join(entry.msg for entry in stage.logged(name))


def test_a_copy_that_fails_after_a_fork_says_and_reports_nothing(stage: Stage, start_worker: StartWorker) -> None:
    start_worker("-c", "1")
    ids = stage.publish({"one": ["fork_and_fail_there:in the copy"]})
    assert stage.wait(ids["one"], "success", "failed").state == "success"
    assert stage.xcom(ids["one"]) == "from the original"
    assert "in the copy" not in "".join(entry.msg for entry in stage.logged("one"))


def test_a_task_that_forks_and_returns_twice_is_reported_once(stage: Stage, start_worker: StartWorker) -> None:
    start_worker("-c", "1")
    ids = stage.publish({"one": ["fork_and_return"], "two": ["succeed"]})
    for task_instance_id in ids.values():
        stage.wait(task_instance_id, "success")
    assert len({entry["pid"] for entry in stage.entries("start")}) == 1


def test_a_command_in_the_background_ends_with_its_task(stage: Stage, worker: WorkerProcess) -> None:
    assert worker
    pids = stage.settings.home / "pids"
    command = f"sleep 3600 > /dev/null 2>&1 & echo $! >> {pids}"
    ids = stage.publish({"bash": []}, pids=str(pids), command=command)
    stage.wait(ids["bash"], "success")
    assert [pid for pid in map(int, pids.read_text().split()) if psutil.pid_exists(pid)] == []


def _drain(stage: Stage, name: str, *, drained: bool) -> None:
    with stage.engine.begin() as connection:
        set_drained(connection, name, drained=drained, actor="ada")


def test_a_pool_made_later_is_consumed_without_a_restart(stage: Stage, worker: WorkerProcess) -> None:
    ids = stage.publish({"pooled": ["succeed"]})
    assert stage.task(ids["pooled"]).state == "queued"
    with stage.engine.begin() as connection:
        rows.insert_pool(connection, "small", 1)
    stage.wait(ids["pooled"], "success")
    assert worker.process.poll() is None


@ON_BOTH_BROKERS
@pytest.mark.parametrize(("arguments", "served"), [(("-q", "gpu"), "gpu"), (("-p", "small"), "pooled")])
def test_a_worker_serves_its_own_queues_and_pools_only(
    stage: Stage, start_worker: StartWorker, arguments: tuple[str, ...], served: str
) -> None:
    with stage.engine.begin() as connection:
        rows.insert_pool(connection, "small", 1)
    ids = stage.publish({"one": ["succeed"], "gpu": ["succeed"], "pooled": ["succeed"]})
    start_worker(*arguments, "-c", "1")
    stage.wait(ids[served], "success")
    assert [name for name in ids if stage.task(ids[name]).state == "queued"] == [n for n in ids if n != served]


def test_children_are_replaced_after_so_many_attempts(stage: Stage, start_worker: StartWorker) -> None:
    start_worker("-c", "1", TURNOUT_WORKER__MAX_TASKS_PER_CHILD="2")
    for _ in range(5):
        ids = stage.publish({"one": ["succeed"]})
        stage.wait(ids["one"], "success")
    assert len({entry["pid"] for entry in stage.entries("start")}) == 3


def _states_of_workers(stage: Stage) -> list[str]:
    with stage.engine.begin() as connection:
        return list(connection.scalars(text("SELECT state FROM process WHERE kind = 'worker' ORDER BY id")))


def _connections(stage: Stage) -> int:
    with stage.engine.begin() as connection:
        return int(
            connection.scalar(
                text("""
                    SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND application_name LIKE 'turnout worker%'
                """)
            )
            or 0
        )


def _messages_again(stage: Stage, ids: dict[str, int]) -> list[rows.AttemptMessage]:
    return [
        rows.AttemptMessage(
            task_instance_id=task_instance_id,
            attempt_id=stage.task(task_instance_id).attempt_id,
            dag_id="scripted",
            run_id="run-1",
            task_id=task_id,
            map_index=-1,
            try_number=1,
            pool="default_pool",
            queue="default",
        )
        for task_id, task_instance_id in ids.items()
    ]


def _rename_database(stage: Stage, old: str, new: str) -> None:
    engine = create_engine(stage.engine.url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :d"), {"d": old}
        )
        eventually(lambda: _try_rename(connection, old, new))
    engine.dispose()


def _try_rename(connection: Connection, old: str, new: str) -> bool:
    try:
        connection.exec_driver_sql(f'ALTER DATABASE "{old}" RENAME TO "{new}"')
    except DBAPIError:  # somebody has connected again meanwhile
        connection.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :d"), {"d": old}
        )
        return False
    return True
