"""`turnout workers`, `schedulers` and `queues`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine

from turnout.cli.local.servers import EmbeddedServers
from turnout.metadata import processes
from turnout.metadata.engine import transact

Turnout = Callable[..., Any]


@pytest.mark.usefixtures("orders")
def test_a_worker_is_listed_with_what_it_serves_and_runs(turnout: Turnout, control_plane: Any) -> None:
    turnout("dags", "trigger", "orders_daily")
    control_plane.start()
    control_plane.claim("extract")
    [worker] = turnout("workers", "list", "-o", "json").json
    assert (worker["name"], worker["state"], worker["hostname"]) == ("crane", "alive", "south")
    assert (worker["queues"], worker["pools"], worker["slots"], worker["running"]) == (["io"], None, 4, 1)


@pytest.mark.usefixtures("control_plane")
def test_a_worker_that_let_its_lease_expire_is_dead(turnout: Turnout, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE process SET lease_expires_at = now() - interval '1 s' WHERE kind = 'worker'")
    assert turnout("workers", "list", "-o", "json").json[0]["state"] == "dead"


@pytest.mark.usefixtures("control_plane")
def test_a_health_check_passes_as_long_as_a_process_holds_its_lease(turnout: Turnout, engine: Engine) -> None:
    assert turnout("alive", "crane").code == 0
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE process SET lease_expires_at = now() - interval '1 s' WHERE kind = 'worker'")
    refused = turnout("alive", "crane")
    assert refused.code == 1
    assert refused.err.startswith("Error: No scheduler, worker or DAG processor named crane holds a lease")
    assert turnout("alive", "sched-1").code == 0


@pytest.mark.usefixtures("control_plane")
def test_those_alive_come_first(turnout: Turnout, engine: Engine) -> None:
    def replace(connection: Connection) -> None:
        gone = processes.register(connection, processes.Registration("scheduler", "a-first-by-name", 3600))
        processes.end(connection, gone)

    transact(engine, replace)
    listed = turnout("schedulers", "list", "-o", "json").json
    assert [(row["name"], row["state"]) for row in listed] == [("sched-1", "alive"), ("a-first-by-name", "stopped")]


def test_a_scheduler_tells_what_its_last_loop_did(turnout: Turnout, control_plane: Any, engine: Engine) -> None:
    transact(engine, lambda connection: processes.report_loop(connection, control_plane.scheduler, '{"queued": 3}'))
    [scheduler] = turnout("schedulers", "list", "-o", "json").json
    assert scheduler["last_loop"] == {"queued": 3}
    assert scheduler["last_loop_when"].endswith("Z")
    assert '{"queued": 3}' in turnout("schedulers", "list").out


@pytest.mark.usefixtures("orders")
def test_a_queue_shows_what_waits_and_who_serves_it(turnout: Turnout, control_plane: Any) -> None:
    turnout("dags", "trigger", "orders_daily")
    control_plane.start()
    control_plane.queue("extract")
    [queue] = turnout("queues", "list", "-o", "json").json
    assert queue["celery_queue"] == "default_pool.io"
    assert (queue["waiting"], queue["queued"], queue["running"]) == (0, 1, 0)
    assert (queue["live_workers"], queue["live_slots"]) == (1, 4)


@pytest.mark.usefixtures("orders", "engine")
def test_a_queue_that_nobody_serves_is_listed_as_well(turnout: Turnout, control_plane: Any) -> None:
    turnout("dags", "trigger", "by_hand")
    control_plane.start()
    control_plane.queue("only")
    unserved = turnout("queues", "list", "-o", "json").json[0]
    assert (unserved["celery_queue"], unserved["queued"]) == ("default_pool.default", 1)
    assert (unserved["live_workers"], unserved["live_slots"]) == (0, 0)


@pytest.mark.usefixtures("orders")
def test_a_queue_shows_how_many_messages_the_broker_holds(
    turnout: Turnout, control_plane: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turnout("dags", "trigger", "orders_daily")
    control_plane.start()
    with EmbeddedServers(tmp_path / "broker", postgres=False, durable=False) as servers:
        monkeypatch.setenv("TURNOUT_BROKER_URL", servers.broker_url)
        control_plane.publish("extract")
        [queue] = turnout("queues", "list", "-o", "json").json
        checks = turnout("config", "check", "-o", "json").json
    assert (queue["celery_queue"], queue["queued"], queue["depth"]) == ("default_pool.io", 1, 1)
    assert checks[-1] == {"name": "broker", "state": "ok", "detail": "it answers"}


def test_without_processes_the_tables_say_how_to_start_some(turnout: Turnout) -> None:
    assert turnout("workers", "list").err == "No workers. `turnout worker` starts one.\n"
    assert turnout("schedulers", "list").err == "No schedulers. `turnout scheduler` starts one.\n"
    assert turnout("queues", "list").err.startswith("No queues: ")
