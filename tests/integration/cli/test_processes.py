"""`turnout workers`, `schedulers` and `queues`."""

import os
import re
from collections.abc import Callable
from importlib.metadata import version
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
    assert turnout("workers", "list", "-o", "json").json == []
    assert turnout("workers", "list", "--all", "-o", "json").json[0]["state"] == "dead"


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
    assert [row["name"] for row in turnout("schedulers", "list", "-o", "json").json] == ["sched-1"]
    listed = turnout("schedulers", "list", "--all", "-o", "json").json
    assert [(row["name"], row["state"]) for row in listed] == [("sched-1", "alive"), ("a-first-by-name", "stopped")]


def test_a_scheduler_tells_what_its_last_loop_did(turnout: Turnout, control_plane: Any, engine: Engine) -> None:
    did = '{"decided": 12, "queued": 5, "created": 0, "is_contended": true}'
    report = processes.LoopReport(did, did_s_ago=200, ended_s_ago=3)
    transact(engine, lambda connection: processes.report_loop(connection, control_plane.scheduler, report))
    [scheduler] = turnout("schedulers", "list", "-o", "json").json
    assert scheduler["last_loop"].pop("at") < scheduler["last_loop_when"]
    assert scheduler["last_loop"] == {"decided": 12, "queued": 5, "created": 0, "is_contended": True}
    assert (scheduler["pid"], scheduler["version"]) == (os.getpid(), version("turnout"))
    assert scheduler["lease_expires_when"] > scheduler["last_loop_when"]
    out = turnout("schedulers", "list").out
    assert re.search(r" 60 min left +\d s ago +3 min ago: decided 12, queued 5  -$", out.splitlines()[1])
    assert scheduler["troubles"] == []


def test_a_scheduler_tells_what_it_cannot_do(turnout: Turnout, control_plane: Any, engine: Engine) -> None:
    report = processes.LoopReport("{}", troubles=[processes.Trouble("broker", "Cannot use it: refused.", 5)])
    transact(engine, lambda connection: processes.report_loop(connection, control_plane.scheduler, report))
    [scheduler] = turnout("schedulers", "list", "-o", "json").json
    assert [(one["what"], one["error"]) for one in scheduler["troubles"]] == [("broker", "Cannot use it: refused.")]
    assert turnout("schedulers", "list").out.splitlines()[1].rstrip().endswith(" Cannot use it: refused.")


def test_a_scheduler_that_has_not_ended_a_loop_claims_no_work(turnout: Turnout, control_plane: Any) -> None:
    assert control_plane.scheduler
    assert turnout("schedulers", "list").out.splitlines()[1].endswith(" -          -")


@pytest.mark.usefixtures("control_plane")
def test_a_scheduler_that_has_gone_is_shown_with_when(turnout: Turnout, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE process SET lease_expires_at = now() - interval '1 h'")
    assert "expired 60 min ago" in turnout("schedulers", "list", "--all").out
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE process SET state = 'dead', ended_at = now() - interval '5 h'")
    assert "ended 5 h ago" in turnout("schedulers", "list", "--all").out


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
    assert turnout("workers", "list").err.startswith("No worker is alive. `turnout worker` starts one;")
    assert turnout("schedulers", "list").err.startswith("No scheduler is alive. `turnout scheduler` starts one;")
    assert turnout("queues", "list").err.startswith("No queues: ")


@pytest.mark.usefixtures("control_plane")
def test_a_worker_is_drained_and_undrained(turnout: Turnout) -> None:
    [worker] = turnout("workers", "list", "-o", "json").json
    name = worker["name"]
    assert turnout("workers", "drain", name).out == f"Worker {name} is drained: it takes nothing new.\n"
    assert turnout("workers", "drain", name).out == f"Worker {name} was drained already.\n"
    [worker] = turnout("workers", "list", "-o", "json").json
    assert re.fullmatch("drained by cli:.+", worker["closed_for"])
    assert turnout("workers", "undrain", name).out == f"Worker {name} takes work again.\n"
    assert turnout("workers", "undrain", name).out == f"Worker {name} was not drained.\n"
    gone = turnout("workers", "drain", "nobody")
    assert (gone.code, gone.err) == (1, "Error: There is no worker nobody. See `turnout workers list --all`.\n")


@pytest.mark.usefixtures("control_plane")
def test_a_queue_is_paused_and_unpaused(turnout: Turnout) -> None:
    assert turnout("queues", "pause", "default").out == "Queue default is paused.\n"
    assert turnout("queues", "pause", "default").out == "Queue default was paused already.\n"
    assert {row["is_paused"] for row in turnout("queues", "list", "-o", "json").json if row["queue"] == "default"} == {
        True
    }
    assert turnout("queues", "unpause", "default").out == "Queue default is unpaused.\n"
    assert turnout("queues", "unpause", "default").out == "Queue default was not paused.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--autoscale", "8"), "--autoscale takes two numbers, such as 8,2; not '8'"),
        (("--autoscale", "2,8"), "the most children first, and at least one: not 2,8"),
        (("--autoscale", "2,0"), "the most children first, and at least one: not 2,0"),
        (("--autoscale", "8,2", "-c", "4"), "give either --autoscale or --concurrency"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(turnout: Turnout, arguments: tuple[str, ...], words: str) -> None:
    ran = turnout("worker", *arguments)
    assert ran.code == 2
    assert words in " ".join(ran.err.split())
