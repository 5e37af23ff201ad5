"""What the demo has found: figures from the history, and whether each promise held."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from turnout.cli.local.demo_job import POOL, POOL_SLOTS, RUNS, TASKS_OF_A_RUN, History, Kill
from turnout.cli.local.demo_platform import SCHEDULERS, WORKERS
from turnout.cli.local.demo_totals import Totals
from turnout.metadata.listings.history import PastAttempt

#: Of the data set, counted once by other means.
FIRST_DAY, FIRST_DAY_DEPARTURES = "2013-01-01", 842
JANUARY_DEPARTURES = 27_004
#: Whoever waited for the dead scheduler's lease (10 s by default) has not taken over, but merely inherited.
LEASE = timedelta(seconds=10)


@dataclass(frozen=True)
class Check:
    """A promise, and whether it held."""

    promise: str
    holds: bool


@dataclass(frozen=True)
class Failover:
    """How the survivor went on.

    Args:
        gap: from the kill to the next task that the survivor queued; None when it never queued one.
        usual: the longest time between two tasks being queued while both schedulers lived.
    """

    kill: Kill
    survivor: str
    gap: timedelta | None
    usual: timedelta


@dataclass
class Findings:
    """Everything that the report tells."""

    history: History
    totals: Totals
    failover: Failover | None
    #: Attempts by (queue, worker) where they ran, and by the scheduler that queued them.
    places: Counter[tuple[str, str]]
    queued_by: Counter[str]
    outcomes: Counter[str]
    most_slots: int
    checks: list[Check] = field(default_factory=list)

    @property
    def all_hold(self) -> bool:
        """Whether every promise held."""
        return all(check.holds for check in self.checks)


def find_out(history: History, totals: Totals) -> Findings:
    """Draw the conclusions."""
    attempts = history.attempts
    findings = Findings(
        history,
        totals,
        failover=_failover(history.kill, attempts) if history.kill else None,
        places=Counter((attempt.queue, attempt.worker) for attempt in attempts if attempt.worker),
        queued_by=Counter(attempt.scheduler or "nobody" for attempt in attempts),
        outcomes=Counter(attempt.outcome or "unfinished" for attempt in attempts),
        most_slots=most_slots_used(attempt for attempt in attempts if attempt.pool == POOL),
    )
    findings.checks = list(_checks(findings))
    return findings


def most_slots_used(attempts: Iterable[PastAttempt]) -> int:
    """Find the most slots in use at any instant: an attempt has its slots from its queueing to its end."""
    changes = []
    for attempt in attempts:
        changes.append((attempt.queued_when, 1, attempt.pool_slots))
        if attempt.end_date:
            changes.append((attempt.end_date, 0, -attempt.pool_slots))
    used = most = 0
    for _, _, slots in sorted(changes):
        used += slots
        most = max(most, used)
    return most


def _failover(kill: Kill, attempts: list[PastAttempt]) -> Failover:
    survivor = next(name for name in SCHEDULERS if name != kill.ended.name)
    before = [attempt.queued_when for attempt in attempts if attempt.queued_when <= kill.at]
    after = [a.queued_when for a in attempts if a.queued_when > kill.at and a.scheduler == survivor]
    pauses = [later - earlier for earlier, later in itertools.pairwise(before)]
    return Failover(kill, survivor, min(after) - kill.at if after else None, max(pauses, default=timedelta()))


def _checks(findings: Findings) -> Iterator[Check]:
    history, totals, failover = findings.history, findings.totals, findings.failover
    tasks, succeeded = RUNS * TASKS_OF_A_RUN, Counter(run.state for run in history.runs)["success"]
    ended = {(a.dag_run_id, a.task_id) for a in history.attempts if a.outcome == "success"}
    yield Check(f"all {RUNS} runs of January succeeded", succeeded == len(history.runs) == RUNS)
    yield Check(
        f"each of the {tasks} tasks succeeded exactly once", len(ended) == findings.outcomes["success"] == tasks
    )
    yield Check(
        "no task failed or was lost with its worker", not findings.outcomes["failed"] and not findings.outcomes["lost"]
    )
    yield Check("every task ran on the worker of its queue", _in_their_places(findings.places))
    yield Check(f"the pool {POOL} never gave out more than its {POOL_SLOTS} slots", findings.most_slots <= POOL_SLOTS)
    yield Check("a scheduler was killed in the middle", failover is not None and failover.kill.ended.code < 0)
    yield Check(
        "the other one went on without waiting for its lease",
        failover is not None and failover.gap is not None and failover.gap < LEASE,
    )
    yield Check("nobody else ended", not history.deaths)
    first = totals.by_day[FIRST_DAY]
    yield Check(f"{FIRST_DAY} has {FIRST_DAY_DEPARTURES:,} departures", first == FIRST_DAY_DEPARTURES)
    january = totals.by_day.total() == totals.in_partitions == JANUARY_DEPARTURES
    yield Check(f"January has {JANUARY_DEPARTURES:,}, in the reports as in the partitions", january)


def _in_their_places(places: Counter[tuple[str, str]]) -> bool:
    return set(places) == {(queue, worker) for worker, queue in WORKERS.items()}
