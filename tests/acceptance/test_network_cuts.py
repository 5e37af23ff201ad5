"""A network that is cut for one process only: to the database, to the broker, in one direction or in both."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.conftest import Servers
from tests.platform import Platform
from tests.proxy import TO_CLIENT, TO_SERVER, Proxy
from tests.rabbitmq import OwnNode

Eventually = Callable[..., object]
LEASE_S = 6
#: How many tasks run while the control plane is away, and for how long it is: several leases. `make test-outage` has
#: more of both.
TASKS = int(os.environ.get("TURNOUT_TEST_AWAY_TASKS", "40"))
AWAY_S = float(os.environ.get("TURNOUT_TEST_AWAY_S", "20"))
LEASES = {"TURNOUT_WORKER__LEASE_S": str(LEASE_S), "TURNOUT_WORKER__KILL_GRACE_S": "1"}


@pytest.fixture
def database_socket(database_url: str) -> Path:
    url = make_url(database_url)
    return Path(str(url.query["host"])) / f".s.PGSQL.{url.query.get('port') or url.port or 5432}"


@pytest.fixture
def database_cut(database_socket: Path) -> Iterator[Proxy]:
    """The way of one process to the database."""
    with Proxy(database_socket) as proxy:
        yield proxy


@pytest.fixture
def broker_cut(servers: Servers) -> Iterator[Proxy]:
    """The way of one process to the broker."""
    with Proxy(servers.broker_socket) as proxy:
        yield proxy


@pytest.fixture
def by_database_cut(database_url: str, database_cut: Proxy) -> dict[str, str]:
    """Variables of a process that reaches the database by the proxy only."""
    url = make_url(database_url).set(host="127.0.0.1", port=database_cut.port, query={})
    return {"TURNOUT_DATABASE_URL": url.render_as_string(hide_password=False)}


@pytest.fixture
def by_broker_cut(broker_cut: Proxy, broker_number: int) -> dict[str, str]:
    """Variables of a process that reaches the broker by the proxy only."""
    return {"TURNOUT_BROKER_URL": f"redis://127.0.0.1:{broker_cut.port}/{broker_number}"}


def trigger(platform: Platform, *actions: str) -> str:
    """Trigger a run whose first task does one thing in each attempt."""
    script = {"one": list(actions), "*": ["succeed"]}
    return platform.trigger("scripted", script, pids="/dev/null", command="true")


def overlaps(platform: Platform) -> list[str]:
    """List the tasks of which an attempt started before the one before it had ended or been stopped."""
    ends = {entry["attempt_id"]: entry["time"] for kind in ("end", "stopped") for entry in platform.ledger(kind)}
    starts: dict[str, list[tuple[float, str]]] = {}
    for entry in platform.ledger("start"):
        starts.setdefault(entry["task_id"], []).append((entry["time"], entry["attempt_id"]))
    return [
        task_id
        for task_id, begun in starts.items()
        for (_, before), (at, _) in zip(sorted(begun), sorted(begun)[1:], strict=False)
        if ends.get(before, at + 1) > at
    ]


@pytest.mark.parametrize("directions", [(TO_SERVER, TO_CLIENT), (TO_CLIENT,), (TO_SERVER,), None])
def test_a_worker_that_is_cut_off_from_the_database_ends_its_attempts_before_others_begin_them(
    platform: Platform,
    database_cut: Proxy,
    by_database_cut: dict[str, str],
    eventually: Eventually,
    directions: tuple[str, ...] | None,
) -> None:
    platform.declare("scripted.py", small=1)
    platform.start("scheduler", "scheduler-1", **LEASES)
    platform.start("worker", "cut-off", "-q", "default", "-c", "1", **LEASES, **by_database_cut)
    gate = platform.folder / "gate"
    run_id = trigger(platform, "hang_and_tell", f"wait_for:{gate}")
    eventually(lambda: "one" in {entry["task_id"] for entry in platform.ledger()})
    if directions is None:
        database_cut.refuse()
    else:
        database_cut.hang(*directions)
    platform.start("worker", "other", "-q", "default,gpu", "-c", "2", **LEASES)
    eventually(lambda: platform.said("cut-off", "worker.cut_off"))
    eventually(lambda: "one" in {entry["task_id"] for entry in platform.ledger("stopped")})
    eventually(lambda: Counter(entry["task_id"] for entry in platform.ledger())["one"] == 2, timeout_s=90)
    assert overlaps(platform) == []
    database_cut.forward()
    gate.touch()
    eventually(lambda: platform.run_state(run_id) == "success", timeout_s=90)
    assert set(Counter(entry["attempt_id"] for entry in platform.ledger()).values()) == {1}
    assert platform.scalar("SELECT infra_failures FROM task_instance WHERE task_id = 'one'") == 1
    eventually(lambda: len(platform.said("cut-off", "worker.registered")) == 2)


def test_the_warning_reaches_a_worker_over_rabbitmq_as_well(
    platform: Platform,
    database_cut: Proxy,
    by_database_cut: dict[str, str],
    eventually: Eventually,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    platform.declare("scripted.py", small=1)
    with OwnNode(tmp_path_factory.mktemp("rabbitmq")) as node:
        variables = {**LEASES, "TURNOUT_BROKER_URL": node.url}
        platform.start("scheduler", "scheduler-1", **variables)
        platform.start("worker", "cut-off", "-q", "default", "-c", "1", **variables, **by_database_cut)
        trigger(platform, "hang_and_tell")
        eventually(lambda: "one" in {entry["task_id"] for entry in platform.ledger()})
        database_cut.hang()
        eventually(lambda: platform.said("cut-off", "worker.cut_off"))
        eventually(lambda: "one" in {entry["task_id"] for entry in platform.ledger("stopped")})
        platform.stop_all()


def test_a_worker_that_everybody_hears_of_late_is_left_alone(
    platform: Platform, database_cut: Proxy, by_database_cut: dict[str, str], eventually: Eventually
) -> None:
    """A database that answers this worker slowly: its lease is renewed, and nothing is ended."""
    platform.declare("scripted.py", small=1)
    platform.start("scheduler", "scheduler-1", **LEASES)
    platform.start("worker", "slow", "-q", "default,gpu", "-c", "2", **LEASES, **by_database_cut)
    database_cut.forward(delay_s=0.1)
    gate = platform.folder / "gate"
    run_id = trigger(platform, f"wait_for:{gate}")
    eventually(lambda: "one" in {entry["task_id"] for entry in platform.ledger()})
    begun = platform.scalar("SELECT heartbeat_at FROM process WHERE name = 'slow'")
    eventually(
        lambda: platform.scalar(
            "SELECT heartbeat_at > CAST(:begun AS timestamptz) + make_interval(secs => :lease_s) FROM process "
            "WHERE name = 'slow'",
            begun=begun,
            lease_s=LEASE_S + 1,
        )
    )
    gate.touch()
    eventually(lambda: platform.run_state(run_id) == "success", timeout_s=90)
    assert platform.said("slow", "worker.cut_off") == []
    assert platform.scalar("SELECT max(try_number) FROM task_instance") == 1


def test_a_scheduler_that_is_cut_off_from_the_database_is_not_missed_and_writes_nothing_late(
    platform: Platform, database_cut: Proxy, by_database_cut: dict[str, str], eventually: Eventually
) -> None:
    platform.declare("fleet.py", small=5)
    platform.start("scheduler", "cut-off", **by_database_cut)
    platform.start("scheduler", "other")
    platform.start("worker", "worker-1", "-q", "default,gpu,io", "-c", "2")
    eventually(lambda: platform.scalar("SELECT count(*) FROM process WHERE state = 'alive'") == 3)
    run_id = platform.trigger("fleet")
    eventually(lambda: platform.states(run_id)["success"] > 20)
    database_cut.hang(TO_CLIENT)  # what it says still arrives
    eventually(lambda: platform.scalar("SELECT state FROM process WHERE name = 'cut-off'") == "dead")
    eventually(lambda: platform.run_state(run_id) == "success", timeout_s=120)
    database_cut.forward()
    database_cut.cut()
    eventually(lambda: platform.said("cut-off", "lease.lost") or platform.said("cut-off", "lease.began")[1:])
    second = platform.trigger("fleet")
    eventually(lambda: platform.run_state(second) == "success", timeout_s=120)
    for run in (run_id, second):
        assert set(platform.states(run)) == {"success"}
    assert set(Counter(entry["attempt_id"] for entry in platform.ledger()).values()) == {1}
    assert platform.scalar("SELECT max(infra_failures) FROM task_instance") == 0


@pytest.mark.parametrize(
    ("broker", "directions"),
    [("valkey", (TO_SERVER, TO_CLIENT)), ("rabbitmq", (TO_CLIENT,)), ("valkey", None), ("rabbitmq", None)],
)
def test_a_worker_that_is_cut_off_from_the_broker_keeps_what_it_has_and_others_do_the_rest(  # noqa: PLR0917
    platform: Platform,
    servers: Servers,
    broker_number: int,
    eventually: Eventually,
    tmp_path_factory: pytest.TempPathFactory,
    broker: str,
    directions: tuple[str, ...] | None,
) -> None:
    platform.declare("scripted.py", small=1)
    with ExitStack() as stack:
        if broker == "rabbitmq":
            node = stack.enter_context(OwnNode(tmp_path_factory.mktemp("rabbitmq")))
            whole = {"TURNOUT_BROKER_URL": node.url}
            cut = stack.enter_context(Proxy(("127.0.0.1", node.port)))
            by_cut = {"TURNOUT_BROKER_URL": f"amqp://guest:guest@127.0.0.1:{cut.port}//"}
        else:
            whole, cut = {}, stack.enter_context(Proxy(servers.broker_socket))
            by_cut = {"TURNOUT_BROKER_URL": f"redis://127.0.0.1:{cut.port}/{broker_number}"}
        stack.callback(platform.stop_all)
        platform.start("scheduler", "scheduler-1", **whole)
        cut_off = platform.start("worker", "cut-off", "-q", "default", "-c", "1", **by_cut)
        gate = platform.folder / "gate"
        run_id = trigger(platform, f"wait_for:{gate}")
        eventually(lambda: "one" in {entry["task_id"] for entry in platform.ledger()})
        if directions is None:
            cut.refuse()
        else:
            cut.hang(*directions)
        platform.start("worker", "other", "-q", "default,gpu", "-c", "2", **whole)
        eventually(lambda: platform.states(run_id)["success"] >= 4, timeout_s=90)
        gate.touch()
        eventually(lambda: platform.run_state(run_id) == "success", timeout_s=90)
        assert set(Counter(entry["attempt_id"] for entry in platform.ledger()).values()) == {1}
        assert platform.scalar("SELECT max(infra_failures) FROM task_instance") == 0
        eventually(lambda: platform.said("cut-off", "outage.began"))
        platform.kill("cut-off", signal.SIGTERM)
        assert cut_off.wait(60) == 0


def test_a_slow_broker_slows_things_down_and_breaks_nothing(
    platform: Platform, broker_cut: Proxy, by_broker_cut: dict[str, str], eventually: Eventually
) -> None:
    platform.declare("fleet.py", small=5)
    broker_cut.forward(delay_s=0.1)
    platform.start("scheduler", "scheduler-1", **by_broker_cut)
    platform.start("worker", "worker-1", "-q", "default,gpu,io", "-c", "4", **by_broker_cut)
    run_id = platform.trigger("fleet")
    eventually(lambda: platform.run_state(run_id) == "success", timeout_s=240)
    assert set(platform.states(run_id)) == {"success"}
    assert set(Counter(entry["attempt_id"] for entry in platform.ledger()).values()) == {1}
    assert platform.scalar("SELECT max(infra_failures) FROM task_instance") == 0


@pytest.mark.timeout(600 + AWAY_S)
def test_a_control_plane_that_is_away_costs_no_running_task(  # noqa: PLR0917  pytest gives them by name
    platform: Platform,
    database_cut: Proxy,
    by_database_cut: dict[str, str],
    broker_cut: Proxy,
    by_broker_cut: dict[str, str],
    eventually: Eventually,
) -> None:
    """The database and the broker are away for everybody, and slow afterwards."""
    variables = LEASES | by_database_cut | by_broker_cut
    platform.declare("abreast.py", wide=TASKS)
    platform.start("scheduler", "scheduler-1", **variables)
    for number in (1, 2):
        platform.start("worker", f"worker-{number}", "-c", str(TASKS // 2), **variables)
    gate = platform.folder / "gate"
    os.mkfifo(gate)
    run_id = platform.trigger(f"abreast_{TASKS}", {"*": [f"wait_for_writer:{gate}"]})
    eventually(lambda: len(platform.ledger()) == TASKS, timeout_s=240)
    database_cut.hang()
    broker_cut.hang()
    threading.Event().wait(AWAY_S / 2)  # nothing can be asked that would say when it is over
    with gate.open("wb"):
        eventually(lambda: len(platform.ledger("end")) == TASKS, timeout_s=120)
    threading.Event().wait(AWAY_S / 2)
    database_cut.forward(delay_s=0.05)
    broker_cut.forward(delay_s=0.05)
    eventually(lambda: platform.run_state(run_id) == "success", timeout_s=240)
    assert platform.states(run_id) == Counter(success=TASKS)
    assert platform.scalar("SELECT max(try_number) FROM task_instance") == 1
    assert platform.scalar("SELECT count(*) FROM process WHERE state = 'dead'") == 0
    assert set(Counter(entry["attempt_id"] for entry in platform.ledger()).values()) == {1}
