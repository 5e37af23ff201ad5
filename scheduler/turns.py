"""Whose turn it is to start a run: in turn over the DAGs, and within a DAG by priority, with a share for backfills.

A share of a DAG's `max_active_runs` is guaranteed to its backfills and the rest to its other runs; what one of the two
does not use the other may. The share is rarely a whole number of runs: 0.25 of 5 is one run and a quarter. The whole
ones are counted in runs that are running. The quarter is counted in turns: each time a run starts where that part of a
run decides, a quarter of a start is put down to the backfills, and when a whole one has come together it is theirs.
What is put down is kept in the DAG's row, so that any number of schedulers go on from the same count.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from operator import attrgetter

from turnout.metadata.starting import Starts, WaitingDag

#: The turn is a 32-bit number; parts of a start that come together may fall short of a whole by so much.
_ALMOST_ONE = 1 - 1e-5


def share_out(dags: Iterable[WaitingDag], limit: int, backfill_share: float) -> list[Starts]:
    """Say how many runs of each DAG start: the first of every DAG, then the second, and so on.

    Args:
        dags: the DAGs that have runs which may start.
        limit: most runs to start.
        backfill_share: the part of a DAG's `max_active_runs` that is guaranteed to its backfills.
    """
    tallies = [_Tally(dag, backfill_share) for dag in sorted(dags, key=attrgetter("waits_since", "dag_id"))]
    line = deque(tallies)
    while line and limit > 0:
        tally = line.popleft()
        if tally.take():
            line.append(tally)
            limit -= 1
    return [tally.starts() for tally in tallies if tally.is_used]


class _Tally:
    """What starts of one DAG."""

    def __init__(self, dag: WaitingDag, backfill_share: float) -> None:
        self._dag = dag
        self._whole, self._part = _guarantee(dag.max_active_runs, backfill_share)
        self._runs = 0
        self._backfills = 0
        self._turn = dag.backfill_turn

    @property
    def is_used(self) -> bool:
        """Whether any run starts."""
        return self._runs + self._backfills > 0

    def starts(self) -> Starts:
        """Say what starts."""
        return Starts(self._dag.dag_id, self._runs, self._backfills, self._turn)

    def take(self) -> bool:
        """Start one more run; false when there is no room, or no run."""
        dag = self._dag
        active = dag.running + dag.running_backfills + self._runs + self._backfills
        run, backfill = _nth(dag.waiting, self._runs), _nth(dag.waiting_backfills, self._backfills)
        if active >= dag.max_active_runs or (run is None and backfill is None):
            return False
        if run is None or (backfill is not None and self._is_backfills_turn(run, backfill)):
            self._backfills += 1
        else:
            self._runs += 1
        return True

    def _is_backfills_turn(self, priority: int, backfill_priority: int) -> bool:
        if priority != backfill_priority:
            return backfill_priority > priority
        active = self._dag.running_backfills + self._backfills
        if active != self._whole:
            return active < self._whole
        turn = self._turn + self._part
        is_whole = turn >= _ALMOST_ONE
        self._turn = max(0.0, turn - 1) if is_whole else turn
        return is_whole


def _nth(priorities: Sequence[int], number: int) -> int | None:
    return priorities[number] if number < len(priorities) else None


def _guarantee(max_active_runs: int, backfill_share: float) -> tuple[int, float]:
    """Split what is guaranteed to the backfills into whole runs and a part of one."""
    part, whole = math.modf(round(max_active_runs * backfill_share, 6))
    return int(whole), part
