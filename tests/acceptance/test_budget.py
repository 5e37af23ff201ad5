"""The connections to the database that a fleet holds, counted through a whole run by the database itself."""

from collections import Counter
from collections.abc import Callable

from tests.platform import Platform

SCHEDULERS = ("scheduler-1", "scheduler-2", "scheduler-3")
WORKERS = ("worker-1", "worker-2")
SLOTS = 100
RUNS, WIDTH = 5, 60
#: What docs/how-to/own-servers.md promises, by the names under which the processes connect.
BUDGET = Counter(
    {f"turnout {name}{thread}": 1 for name in SCHEDULERS for thread in ("", " lease", " waker")}
    | {f"turnout {name}": 2 for name in WORKERS}
    | {"turnout dag-processor": 1, "turnout dag-processor lease": 1}
)


def test_two_workers_of_a_hundred_slots_and_three_schedulers_stay_within_their_budget(
    platform: Platform, eventually: Callable[..., object]
) -> None:
    platform.declare("short.py")
    for name in SCHEDULERS:
        platform.start("scheduler", name)
    platform.start("dag-processor", "dag-processor")
    for name in WORKERS:
        platform.start("worker", name, "-c", str(SLOTS), TURNOUT_WORKER__LEASE_S="15")
    most: Counter[str] = Counter()

    def look(*, until: bool) -> bool:
        nonlocal most
        most |= _connections(platform)
        return until

    alive = "SELECT count(*) FROM process WHERE state = 'alive' AND kind = 'worker'"
    eventually(lambda: look(until=platform.scalar(alive) == len(WORKERS)), timeout_s=120)
    runs = [platform.trigger("short", {"*": ["sleep:2"]}) for _ in range(RUNS)]
    eventually(lambda: look(until={platform.run_state(run) for run in runs} == {"success"}), timeout_s=180)

    assert most <= BUDGET, most - BUDGET
    assert most.keys() == BUDGET.keys()
    assert len({entry["attempt_id"] for entry in platform.ledger()}) == RUNS * WIDTH
    assert len({entry["pid"] for entry in platform.ledger()}) > SLOTS // 2


def _connections(platform: Platform) -> Counter[str]:
    rows = platform.rows("""
        SELECT application_name, count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name <> 'turnout test' GROUP BY application_name
    """)
    return Counter({row["application_name"]: row["count"] for row in rows})
