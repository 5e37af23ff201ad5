"""Trigger rules: what becomes of a task, given the states of the tasks upstream of it.

A rule asks which endings occur among the upstream task instances, however often each does. `RULES` says what follows
from them when all have ended. While some have not, the same table is asked about every way in which they still may
end: an answer that is the same for all of them is certain, and taken at once. So an early decision is never another
one than a late decision would have been, and the order in which tasks end makes no difference.

The rules are those of Airflow (https://airflow.apache.org/docs/apache-airflow/stable/core-concepts/dags.html).
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from functools import cache
from itertools import combinations
from typing import Literal, NamedTuple

from turnout.tasks.values import check_choice

Verdict = Literal["scheduled", "skipped", "upstream_failed"]
RUN: Verdict = "scheduled"
SKIP: Verdict = "skipped"
FAIL: Verdict = "upstream_failed"

#: The endings that a rule can ask for. A `removed` instance has ended too, but counts as if it had never been there.
ENDINGS = ("success", "failed", "upstream_failed", "skipped")
_ENDED = frozenset({*ENDINGS, "removed"})
_FAILURES = ("failed", "upstream_failed")


class TriggerRule(StrEnum):
    """When a task may run, given how its upstream tasks ended."""

    ALL_SUCCESS = "all_success"
    ALL_FAILED = "all_failed"
    ALL_DONE = "all_done"
    ALL_DONE_MIN_ONE_SUCCESS = "all_done_min_one_success"
    ALL_DONE_SETUP_SUCCESS = "all_done_setup_success"
    ALL_SKIPPED = "all_skipped"
    ALWAYS = "always"
    NONE_FAILED = "none_failed"
    NONE_FAILED_MIN_ONE_SUCCESS = "none_failed_min_one_success"
    NONE_SKIPPED = "none_skipped"
    ONE_DONE = "one_done"
    ONE_FAILED = "one_failed"
    ONE_SUCCESS = "one_success"


class Rule(NamedTuple):
    """One row of the table of rules.

    Attributes:
        verdicts: for each ending that matters to the rule its verdict; the first ending that occurs counts.
        otherwise: the verdict when none of them occurs.
        starts_early: whether the task may start while some of its upstream tasks have not ended.
    """

    verdicts: Mapping[str, Verdict]
    otherwise: Verdict
    starts_early: bool = False

    def read(self, occurring: AbstractSet[str]) -> Verdict:
        """Say what follows from the endings that occur, when all have ended."""
        return next((verdict for ending, verdict in self.verdicts.items() if ending in occurring), self.otherwise)


_FAILED_FAIL: dict[str, Verdict] = dict.fromkeys(_FAILURES, FAIL)
_FAILED_RUN: dict[str, Verdict] = dict.fromkeys(_FAILURES, RUN)
_FAILED_SKIP: dict[str, Verdict] = dict.fromkeys(_FAILURES, SKIP)
_T = TriggerRule
RULES: dict[TriggerRule, Rule] = {
    _T.ALL_SUCCESS: Rule({**_FAILED_FAIL, "skipped": SKIP}, RUN),
    _T.ALL_FAILED: Rule({"success": SKIP, "skipped": SKIP, **_FAILED_RUN}, SKIP),
    _T.ALL_DONE: Rule({}, RUN),
    _T.ALL_DONE_MIN_ONE_SUCCESS: Rule({"skipped": SKIP, "success": RUN, **_FAILED_FAIL}, SKIP),
    # Of a task that has setups upstream, the endings of these; of any other, it is `all_done`.
    _T.ALL_DONE_SETUP_SUCCESS: Rule({"success": RUN, **_FAILED_FAIL}, SKIP),
    _T.ALL_SKIPPED: Rule({"success": SKIP, **_FAILED_SKIP, "skipped": RUN}, SKIP),
    _T.ALWAYS: Rule({}, RUN, starts_early=True),
    _T.NONE_FAILED: Rule(_FAILED_FAIL, RUN),
    _T.NONE_FAILED_MIN_ONE_SUCCESS: Rule({**_FAILED_FAIL, "success": RUN}, SKIP),
    _T.NONE_SKIPPED: Rule({"skipped": SKIP}, RUN),
    # A task that could not run because of others is no reason to start, as in Airflow.
    _T.ONE_DONE: Rule({"success": RUN, "failed": RUN}, SKIP, starts_early=True),
    _T.ONE_FAILED: Rule(_FAILED_RUN, SKIP, starts_early=True),
    _T.ONE_SUCCESS: Rule({"success": RUN, **_FAILED_FAIL}, SKIP, starts_early=True),
}


def follow(
    rule: TriggerRule, upstream: Iterable[AbstractSet[str]], setups: Iterable[AbstractSet[str]] = ()
) -> Verdict | None:
    """Say what a task becomes that nothing has happened to yet: to be run, skipped or failed; None while it waits.

    Args:
        rule: its trigger rule.
        upstream: for each task directly upstream, the distinct states of its instances; a task that has none yet has
            not ended.
        setups: those of them that are setups.
    """
    above, setups = list(upstream), list(setups)
    if not above:
        return RUN
    judged = setups if rule is TriggerRule.ALL_DONE_SETUP_SUCCESS else above
    if not judged:
        rule, judged = TriggerRule.ALL_DONE, above
    verdict = _certain(rule, frozenset().union(*judged) & _ENDED, is_open=not _all_ended(judged))
    if verdict == RUN and not RULES[rule].starts_early and not _all_ended(above):
        return None
    return verdict


def check_trigger_rule(value: object) -> TriggerRule:
    """Return the trigger rule of a name.

    Raises:
        DagError: there is no such rule.
    """
    return TriggerRule(check_choice(value, map(str, TriggerRule), "trigger_rule"))


@cache
def _certain(rule: TriggerRule, occurring: frozenset[str], *, is_open: bool) -> Verdict | None:
    """Return the verdict that stands however those end that have not ended, if there is one."""
    possible = {RULES[rule].read(occurring | more) for more in (_MORE if is_open else [frozenset[str]()])}
    return possible.pop() if len(possible) == 1 else None


#: The endings that may yet be added by instances that have not ended, of which there may be many.
_MORE = [frozenset(more) for size in range(len(ENDINGS) + 1) for more in combinations(ENDINGS, size)]


def _all_ended(tasks: Iterable[AbstractSet[str]]) -> bool:
    return all(states and states <= _ENDED for states in tasks)
