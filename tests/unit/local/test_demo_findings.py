"""What the demo concludes from a history, and that no single thing can go wrong unnoticed."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from turnout.cli.local.demo_findings import find_out
from turnout.cli.local.demo_job import History, Kill
from turnout.cli.local.demo_totals import Totals
from turnout.cli.local.supervisor import Ended
from turnout.metadata.listings.history import PastAttempt
from turnout.metadata.listings.runs import RunRow

START = datetime(2026, 1, 1, tzinfo=UTC)
TASKS = ("extract", "validate", "load_ewr", "load_jfk", "load_lga", "report")
Break = Callable[[History, Totals], object]


def run(day: int) -> RunRow:
    run_id, facts = f"scheduled__{day}", dict.fromkeys(RunRow.__dataclass_fields__)
    return RunRow(**{**facts, "dag_run_id": run_id, "state": "success"})  # type: ignore[arg-type]


def attempt(number: int) -> PastAttempt:
    """Make one of the attempts, which follow each other by 10 ms; the 62nd is the last before the kill."""
    task_id, queued = TASKS[number % 6], START + timedelta(milliseconds=10 * number)
    queue = "heavy" if task_id == "load_ewr" else "default"
    return PastAttempt(
        attempt_id=UUID(int=number),
        dag_run_id=f"scheduled__{number // 6}",
        task_id=task_id,
        pool="warehouse" if task_id.startswith("load") else "default_pool",
        pool_slots=1,
        queue=queue,
        queued_when=queued,
        start_date=queued + timedelta(milliseconds=2),
        end_date=queued + timedelta(milliseconds=15),
        outcome="success",
        cause=None,
        scheduler=f"scheduler-{number % 2 + 1}" if number < 62 else "scheduler-2",
        worker=f"worker-{queue}",
    )


def good() -> tuple[History, Totals]:
    kill = Kill(Ended("scheduler-1", 7, -9), START + timedelta(milliseconds=615))
    history = History([run(day) for day in range(31)], [attempt(number) for number in range(186)], kill)
    totals = Totals(in_partitions=27_004)
    totals.by_day.update({"2013-01-01": 842, "2013-01-02": 27_004 - 842})
    return history, totals


def change(number: int, **values: object) -> Break:
    def apply(history: History, _totals: Totals) -> None:
        history.attempts[number] = replace(history.attempts[number], **values)  # type: ignore[arg-type]

    return apply


def test_all_promises_hold_in_a_good_history() -> None:
    findings = find_out(*good())
    assert [check.promise for check in findings.checks if not check.holds] == []
    assert findings.all_hold
    assert findings.queued_by == {"scheduler-1": 31, "scheduler-2": 155}
    assert findings.places == {("default", "worker-default"): 155, ("heavy", "worker-heavy"): 31}
    assert findings.failover is not None
    assert findings.failover.survivor == "scheduler-2"
    assert findings.failover.gap == timedelta(milliseconds=5)
    assert findings.failover.usual == timedelta(milliseconds=10)


@pytest.mark.parametrize(
    ("break_it", "promise"),
    [
        (lambda h, _t: h.runs.pop(), "all 31 runs"),
        (lambda h, _t: h.runs.append(replace(run(0), state="failed")), "all 31 runs"),
        (lambda h, _t: h.attempts.pop(), "exactly once"),
        (lambda h, _t: h.attempts.append(attempt(3)), "exactly once"),
        (change(9, outcome="failed"), "no task failed"),
        (change(9, outcome="lost"), "no task failed"),
        (change(2, worker="worker-default"), "worker of its queue"),
        (change(2, end_date=START + timedelta(seconds=9)), "never gave out more"),
        (lambda h, _t: setattr(h, "kill", None), "killed in the middle"),
        (lambda h, _t: setattr(h, "kill", replace(h.kill, ended=Ended("scheduler-1", 7, 0))), "killed in the middle"),
        (lambda h, _t: setattr(h, "kill", replace(h.kill, at=START - timedelta(seconds=11))), "without waiting"),
        (lambda h, _t: setattr(h, "kill", replace(h.kill, at=START + timedelta(hours=1))), "without waiting"),
        (lambda h, _t: h.deaths.append(Ended("worker-heavy", 8, 1)), "nobody else"),
        (lambda _h, t: t.by_day.update({"2013-01-01": -1, "2013-01-02": 1}), "842"),
        (lambda _h, t: t.by_day.update({"2013-01-02": 1}), "27,004"),
        (lambda _h, t: setattr(t, "in_partitions", 27_003), "27,004"),
    ],
)
def test_whatever_goes_wrong_is_found(break_it: Break, promise: str) -> None:
    history, totals = good()
    break_it(history, totals)
    findings = find_out(history, totals)
    assert not findings.all_hold
    assert any(promise in check.promise for check in findings.checks if not check.holds)
