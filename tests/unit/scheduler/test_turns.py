"""Whose turn it is to start a run: checked against a plain model of slots and shares."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.metadata.starting import WaitingDag
from turnout.scheduler.turns import share_out

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHARES = st.sampled_from([0.05, 0.1, 0.25, 0.3, 0.5, 0.75, 0.9])
MANY = [0] * 100


def waiting(dag_id: str = "d", max_active_runs: int = 1, **more: Any) -> WaitingDag:
    given = {"running": 0, "running_backfills": 0, "waiting": [], "waiting_backfills": [], "backfill_turn": 0.0}
    return WaitingDag(dag_id, max_active_runs, **{**given, "waits_since": NOW, **more})


class Slots:
    """The runs of one DAG of which plenty wait in both lines, started again and again by `share_out`."""

    def __init__(self, max_active_runs: int, share: float) -> None:
        self.max_active_runs, self.share = max_active_runs, share
        self.turn = 0.0
        self.active: list[str] = []
        self.started: list[str] = []

    def fill(self, limit: int = 1000, **lines: list[int]) -> None:
        """Start what may start; both lines are full unless given."""
        counts = Counter(self.active)
        dag = waiting(
            max_active_runs=self.max_active_runs,
            running=counts["run"],
            running_backfills=counts["backfill"],
            backfill_turn=self.turn,
            **{"waiting": MANY, "waiting_backfills": MANY, **lines},
        )
        for starts in share_out([dag], limit, self.share):
            self.turn = starts.backfill_turn
            new = ["run"] * starts.runs + ["backfill"] * starts.backfills
            self.active += new
            self.started += new

    def end(self, which: int) -> None:
        """Let one of the active runs end."""
        if self.active:
            self.active.pop(which % len(self.active))


@given(share=SHARES, starts=st.integers(1, 200))
def test_with_room_for_one_the_turns_come_in_proportion(share: float, starts: int) -> None:
    slots = Slots(1, share)
    for _ in range(starts):
        slots.fill()
        slots.end(0)
    assert abs(slots.started.count("backfill") - Fraction(str(share)) * starts) < 1
    longest_wait = max(map(len, "".join(kind[0] for kind in slots.started).split("b")))
    assert longest_wait < 1 / share + 1


def test_a_quarter_of_one_slot_is_every_fourth_turn() -> None:
    slots = Slots(1, 0.25)
    for _ in range(8):
        slots.fill()
        slots.end(0)
    assert slots.started == ["run", "run", "run", "backfill"] * 2


@given(
    max_active_runs=st.integers(1, 20),
    share=SHARES,
    events=st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 3), st.booleans(), st.booleans(), st.integers(1, 5)), max_size=60
    ),
)
def test_any_history_keeps_to_the_limit_and_wastes_no_room(
    max_active_runs: int, share: float, events: list[tuple[int, int, bool, bool, int]]
) -> None:
    slots = Slots(max_active_runs, share)
    for which, ends, has_runs, has_backfills, limit in events:
        for _ in range(ends):
            slots.end(which)
        before = len(slots.active)
        slots.fill(limit, waiting=MANY * has_runs, waiting_backfills=MANY * has_backfills)
        wanted = max_active_runs - before if has_runs or has_backfills else 0
        assert len(slots.active) - before == min(wanted, limit)
        assert 0 <= slots.turn < 1


@given(max_active_runs=st.integers(1, 20), share=SHARES, ends=st.lists(st.integers(0, 100), max_size=100))
def test_both_sides_hold_what_is_guaranteed_to_them_whatever_ends_when(
    max_active_runs: int, share: float, ends: list[int]
) -> None:
    slots = Slots(max_active_runs, share)
    slots.fill()
    guaranteed = Fraction(str(share)) * max_active_runs
    for which in ends:
        held = Counter(slots.active)
        assert guaranteed - 1 < held["backfill"] < guaranteed + 1
        assert max_active_runs - guaranteed - 1 < held["run"] < max_active_runs - guaranteed + 1
        slots.end(which)
        slots.fill()


@given(max_active_runs=st.integers(1, 12), share=SHARES, first=st.sampled_from(["waiting", "waiting_backfills"]))
def test_who_comes_late_gets_its_part_as_soon_as_room_comes_free(
    max_active_runs: int, share: float, first: str
) -> None:
    slots = Slots(max_active_runs, share)
    nobody = {"waiting": [], "waiting_backfills": []}
    slots.fill(**{**nobody, first: MANY})
    early = "run" if first == "waiting" else "backfill"
    assert slots.active == [early] * max_active_runs
    guaranteed = Fraction(str(share)) * max_active_runs
    for _ in range(max_active_runs):  # those that came first end, one after the other
        slots.end(0)
        slots.fill()
    assert abs(slots.active.count("backfill") - guaranteed) < 1


def test_priority_goes_before_the_share() -> None:
    urgent = waiting(waiting=[5, 0], waiting_backfills=[0], backfill_turn=0.75)
    [starts] = share_out([urgent], 10, 0.25)
    assert (starts.runs, starts.backfills, starts.backfill_turn) == (1, 0, 0.75)
    urgent = waiting(waiting=[0], waiting_backfills=[1])
    [starts] = share_out([urgent], 10, 0.25)
    assert (starts.runs, starts.backfills, starts.backfill_turn) == (0, 1, 0.0)


@pytest.mark.parametrize("limit", [1, 3, 4, 10])
def test_dags_take_turns_the_one_that_waits_longest_first(limit: int) -> None:
    dags = [
        waiting("a", 5, waiting=MANY),
        waiting("b", 5, waiting=[0], waits_since=NOW - timedelta(seconds=1)),
        waiting("c", 5, waiting_backfills=[0, 0]),
    ]
    started = {starts.dag_id: starts.runs + starts.backfills for starts in share_out(dags, limit, 0.25)}
    assert (
        started
        == {
            1: {"b": 1},
            3: {"a": 1, "b": 1, "c": 1},
            4: {"a": 2, "b": 1, "c": 1},
            10: {"a": 5, "b": 1, "c": 2},
        }[limit]
    )


@given(
    lines=st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 5), st.integers(0, 30), st.integers(0, 30)), max_size=12
    ),
    limit=st.integers(0, 60),
)
def test_no_dag_gets_a_second_start_before_each_has_got_its_first(
    lines: list[tuple[int, int, int, int]], limit: int
) -> None:
    dags = [
        waiting(f"d{number:02}", room, running=min(active, room), waiting=[0] * runs, waiting_backfills=[0] * backfills)
        for number, (room, active, runs, backfills) in enumerate(lines)
    ]
    got = {starts.dag_id: starts.runs + starts.backfills for starts in share_out(dags, limit, 0.25)}
    wanted = {
        dag.dag_id: min(dag.max_active_runs - dag.running, len(dag.waiting) + len(dag.waiting_backfills))
        for dag in dags
    }
    assert sum(got.values()) == min(limit, sum(wanted.values()))
    assert all(got[dag_id] <= wanted[dag_id] for dag_id in got)
    rounds = max(got.values(), default=0)
    assert all(got.get(dag_id, 0) >= min(most, rounds - 1) for dag_id, most in wanted.items())
