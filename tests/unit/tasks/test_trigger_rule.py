"""Every trigger rule, on all combinations of upstream states, against a model that counts task instances."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, combinations, combinations_with_replacement, product
from pathlib import Path

import pytest

from turnout.metadata.states import FINISHED, TaskState
from turnout.tasks.errors import DagError
from turnout.tasks.trigger_rule import ENDINGS, RULES, TriggerRule, check_trigger_rule, follow

States = frozenset[str]
Upstream = tuple[States, ...]
RUNNING = "running"  # stands for all states that are no endings: the rules must not tell them apart
ALL_STATES = (*sorted(FINISHED), RUNNING)


def subsets(states: Iterable[str], least: int) -> list[States]:
    states = list(states)
    return [frozenset(some) for size in range(least, len(states) + 1) for some in combinations(states, size)]


#: What may be known of one upstream task: no instance at all, or any set of states of its instances.
TASKS = subsets(ALL_STATES, 0)
#: What may be known of it when it has ended.
ENDED = subsets(sorted(FINISHED), 1)


def when_all_ended(rule: str, upstream: Upstream, setups: Upstream) -> str:  # noqa: C901, PLR0911, PLR0912
    """Say what Airflow's documentation says of tasks that have all ended; an instance counts once for each state.

    Instances that were removed are left out, as if the task had been mapped over less from the beginning.
    """
    if not upstream:
        return "scheduled"
    found = [state for states in upstream for state in states if state != "removed"]
    failed = found.count("failed") + found.count("upstream_failed")
    success, skipped = found.count("success"), found.count("skipped")
    match rule:
        case "all_success":
            return "upstream_failed" if failed else "skipped" if skipped else "scheduled"
        case "all_failed":
            return "scheduled" if failed and failed == len(found) else "skipped"
        case "all_done" | "always":
            return "scheduled"
        case "all_done_min_one_success":
            if skipped or not found:
                return "skipped"
            return "scheduled" if success else "upstream_failed"
        case "one_success":
            if success:
                return "scheduled"
            return "upstream_failed" if failed else "skipped"
        case "one_failed":
            return "scheduled" if failed else "skipped"
        case "one_done":
            return "scheduled" if success + found.count("failed") else "skipped"
        case "none_failed":
            return "upstream_failed" if failed else "scheduled"
        case "none_failed_min_one_success":
            if failed:
                return "upstream_failed"
            return "scheduled" if success else "skipped"
        case "none_skipped":
            return "skipped" if skipped else "scheduled"
        case "all_skipped":
            return "scheduled" if skipped and skipped == len(found) else "skipped"
        case "all_done_setup_success":
            of_setups = [state for states in setups for state in states]
            if not setups or "success" in of_setups:
                return "scheduled"
            return "upstream_failed" if {"failed", "upstream_failed"} & set(of_setups) else "skipped"
    raise AssertionError(rule)


def endings_of(states: States) -> list[States]:
    """List every way in which a task of which this is known may end."""
    if states and RUNNING not in states:
        return [states]
    return list({(states - {RUNNING}) | more for more in ENDED})


def has_ended(upstream: Upstream) -> bool:
    return all(states and RUNNING not in states for states in upstream)


def expected(rule: str, upstream: Upstream, setups: Upstream) -> str | None:
    """Decide by trying out every way in which the upstream tasks may end."""
    others = upstream[len(setups) :]
    possible = set()
    for ended in product(*map(endings_of, (*setups, *others))):
        possible.add(when_all_ended(rule, ended, ended[: len(setups)]))
        if len(possible) > 1:
            return None
    (verdict,) = possible
    waits = rule not in ("one_success", "one_failed", "one_done", "always")
    return None if verdict == "scheduled" and waits and not has_ended(upstream) else verdict


def few(tasks: Iterable[States]) -> list[States]:
    """Leave out tasks with more than two states: for three tasks at once the others are enough."""
    return [states for states in tasks if len(states) <= 2]


def situations() -> Iterator[Upstream]:
    yield ()
    yield from ((states,) for states in TASKS)
    yield from combinations_with_replacement(TASKS, 2)
    yield from combinations_with_replacement(few(TASKS), 3)


@pytest.mark.parametrize("rule", sorted(set(TriggerRule) - {"all_done_setup_success"}))
def test_a_rule_decides_what_is_certain_and_nothing_else(rule: TriggerRule) -> None:
    wrong = {
        upstream: (found, right)
        for upstream in situations()
        if (found := follow(rule, upstream)) != (right := expected(rule, merged(upstream), ()))
    }
    assert wrong == {}


def merged(upstream: Upstream) -> Upstream:
    """Take tasks that have ended together, and tasks that have not: no rule asks which of them has which state.

    It keeps the model fast; `test_no_rule_asks_which_task_has_which_state` shows that it may.
    """
    ended = [states for states in upstream if has_ended((states,))]
    open_ = [states for states in upstream if not has_ended((states,))]
    return tuple(frozenset(chain(*group)) for group in (ended, open_) if group)


@pytest.mark.parametrize("rule", sorted(set(TriggerRule) - {"all_done_setup_success"}))
def test_no_rule_asks_which_task_has_which_state(rule: TriggerRule) -> None:
    for upstream in combinations_with_replacement(few(TASKS), 2):
        assert expected(rule, upstream, ()) == expected(rule, merged(upstream), ())


def test_a_teardown_decides_by_its_setups_and_waits_for_all() -> None:
    rule = TriggerRule.ALL_DONE_SETUP_SUCCESS
    for tasks in chain(product(TASKS), product(TASKS, repeat=2), product(few(TASKS), repeat=3)):
        for count in range(len(tasks) + 1):
            setups, others = tasks[:count], tasks[count:]
            right = expected(rule, (*merged(setups), *merged(others)), merged(setups))
            assert follow(rule, tasks, setups) == right, (setups, others)


@pytest.mark.parametrize("rule", TriggerRule)
def test_what_is_decided_early_is_what_would_be_decided_late(rule: TriggerRule) -> None:
    for upstream in chain(product(TASKS), combinations_with_replacement(few(TASKS), 2)):
        for setups in {upstream[:0], upstream[:1]}:
            early = follow(rule, upstream, setups)
            for ended in product(*map(endings_of, upstream)) if early else ():
                assert follow(rule, ended, ended[: len(setups)]) == early, (upstream, ended)


@pytest.mark.parametrize("rule", TriggerRule)
def test_every_rule_has_decided_when_all_have_ended(rule: TriggerRule) -> None:
    for upstream in combinations_with_replacement(ENDED, 2):
        assert follow(rule, upstream) is not None
        assert follow(rule, upstream, upstream[:1]) is not None


@pytest.mark.parametrize("rule", TriggerRule)
def test_a_task_that_has_nothing_upstream_runs_by_any_rule(rule: TriggerRule) -> None:
    assert follow(rule, []) == "scheduled"


def test_the_endings_are_those_of_the_law_and_each_state_without_one_is_open() -> None:
    assert {*ENDINGS, "removed"} == FINISHED
    for state in set(TaskState) - FINISHED:
        assert follow(TriggerRule.ALL_DONE, [{TaskState.SUCCESS}, {state}]) is None
        assert follow(TriggerRule.ONE_SUCCESS, [{TaskState.SUCCESS}, {state}]) == "scheduled"


def test_every_rule_of_airflow_is_in_the_table_and_in_the_docs() -> None:
    assert set(RULES) == set(TriggerRule)
    assert len(TriggerRule) == 13
    page = (Path(__file__).parents[3] / "docs" / "reference" / "trigger-rules.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)`.*? \| (.*?) \|", page, re.MULTILINE))
    assert rows.keys() >= set(TriggerRule)
    assert {rule for rule, when in rows.items() if "at once" in when} == {r for r in RULES if RULES[r].starts_early}


@pytest.mark.parametrize(
    ("rule", "upstream", "verdict"),
    [
        ("one_success", [{RUNNING}, {"success"}], "scheduled"),
        ("one_success", [{"failed"}, {RUNNING}], None),
        ("one_success", [{"skipped"}, {"skipped"}], "skipped"),
        ("one_success", [{"skipped"}, {"failed"}], "upstream_failed"),
        ("one_failed", [{RUNNING}, {"upstream_failed"}], "scheduled"),
        ("one_done", [{RUNNING}, {"failed"}], "scheduled"),
        ("one_done", [{"upstream_failed"}, {"skipped"}], "skipped"),
        ("all_success", [{RUNNING}, {"failed"}], "upstream_failed"),
        ("all_success", [{RUNNING}, {"skipped"}], None),
        ("all_failed", [{RUNNING}, {"success"}], "skipped"),
        ("all_skipped", [{RUNNING}, {"failed"}], "skipped"),
        ("none_failed", [{"success"}, {"skipped"}], "scheduled"),
        ("none_skipped", [{RUNNING}, {"skipped"}], "skipped"),
        ("all_done_min_one_success", [{RUNNING}, {"skipped"}], "skipped"),
        ("all_done", [{RUNNING}, {"failed"}], None),
        ("always", [{RUNNING}, set()], "scheduled"),
    ],
)
def test_rules_by_example(rule: str, upstream: list[set[str]], verdict: str | None) -> None:
    assert follow(TriggerRule(rule), upstream) == verdict


def test_a_mapped_task_counts_with_every_instance_and_one_without_instances_has_not_ended() -> None:
    assert follow(TriggerRule.ALL_SUCCESS, [{"success", RUNNING}]) is None
    assert follow(TriggerRule.ALL_SUCCESS, [{"success", "failed"}]) == "upstream_failed"
    assert follow(TriggerRule.ALL_DONE, [frozenset(), {"success"}]) is None
    assert follow(TriggerRule.ALL_SUCCESS, [{"success", "removed"}]) == "scheduled"


def test_a_rule_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(
        DagError, match="trigger_rule 'all_sucess' does not exist: use 'all_success' or 'all_failed' or"
    ):
        check_trigger_rule("all_sucess")
    assert check_trigger_rule(TriggerRule.ALWAYS) is check_trigger_rule("always") is TriggerRule.ALWAYS
