"""The board of a run: trigger rules, and that partial news lead to what a look at everything would."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.metadata.states import RunState, TaskState
from turnout.scheduler.board import Board, run_state
from turnout.scheduler.trigger_rules import all_success

Graph = dict[str, list[str]]
States = dict[str, TaskState]
NONE, SUCCESS, FAILED, SKIPPED = TaskState.NONE, TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED
ENDINGS = (SUCCESS, SUCCESS, FAILED, SKIPPED)


def content(upstream: Graph, empty: set[str]) -> dict[str, object]:
    return {
        "tasks": {
            name: {
                "upstream": before,
                "downstream": sorted(other for other, its in upstream.items() if name in its),
                "trigger_rule": "all_success",
                "sends_to_worker": name not in empty,
            }
            for name, before in upstream.items()
        }
    }


def look(dag: Mapping[str, object], states: States, changed: set[str] | None) -> dict[str, TaskState]:
    """Let a board decide, as step 3 does, and give it only the states that it asks for."""
    board = Board(dict(dag), changed)
    while not board.is_done:
        board.learn({name: {states[name]} for name in board.wanted()})
        board.decide()
    return board.decided


def reference(upstream: Graph, empty: set[str], states: States) -> States:
    """The plainest way to say the same: look at every task again and again until nothing changes."""
    states = dict(states)
    while True:
        before = dict(states)
        for name, its in upstream.items():
            above = [states[other] for other in its]
            if states[name] is not NONE:
                continue
            if FAILED in above or TaskState.UPSTREAM_FAILED in above:
                states[name] = TaskState.UPSTREAM_FAILED
            elif SKIPPED in above:
                states[name] = SKIPPED
            elif above.count(SUCCESS) == len(above):
                states[name] = SUCCESS if name in empty else TaskState.SCHEDULED
        if states == before:
            return states


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, set[str]]:
    """Random DAGs: a task waits for some of those before it; some tasks have nothing to run."""
    size = draw(st.integers(1, 9))
    upstream = {
        f"t{n}": sorted(draw(st.sets(st.sampled_from([f"t{m}" for m in range(n)])))) if n else [] for n in range(size)
    }
    return upstream, draw(st.sets(st.sampled_from(sorted(upstream))))


@given(graphs(), st.data())
def test_partial_news_and_a_look_at_everything_agree_with_the_reference(
    made: tuple[Graph, set[str]], data: st.DataObject
) -> None:
    upstream, empty = made
    dag, states = content(upstream, empty), dict.fromkeys(upstream, NONE)
    changed: set[str] | None = None
    while True:
        expected = reference(upstream, empty, states)
        states |= look(dag, states, changed)
        assert states == expected
        assert look(dag, states, None) == {}
        running = sorted(name for name, state in states.items() if state is TaskState.SCHEDULED)
        if not running:
            break
        changed = data.draw(st.sets(st.sampled_from(running), min_size=1))
        states |= {name: data.draw(st.sampled_from(ENDINGS)) for name in sorted(changed)}
    assert NONE not in states.values()


@given(graphs())
def test_a_board_reads_only_what_is_next_to_the_news(made: tuple[Graph, set[str]]) -> None:
    upstream, empty = made
    last = list(upstream)[-1]
    board = Board(content(upstream, empty), {last})
    assert board.wanted() == set()
    assert board.is_done


def test_the_news_of_a_wide_fan_in_make_one_task_a_candidate() -> None:
    upstream: Graph = {f"t{number}": [] for number in range(100)} | {"end": [f"t{number}" for number in range(100)]}
    board = Board(content(upstream, set()), {"t7"})
    board.learn({name: {SUCCESS} for name in upstream if name != "end"} | {"end": {NONE}})
    board.decide()
    assert board.decided == {"end": TaskState.SCHEDULED}


def test_news_of_a_task_that_the_version_does_not_have_are_no_news() -> None:
    assert Board(content({"a": []}, set()), {"gone"}).is_done


@pytest.mark.parametrize(
    ("upstream", "state"),
    [
        ([], TaskState.SCHEDULED),
        ([SUCCESS, SUCCESS], TaskState.SCHEDULED),
        ([SUCCESS, TaskState.RUNNING], None),
        ([TaskState.UP_FOR_RETRY], None),
        ([SUCCESS, SKIPPED], SKIPPED),
        ([TaskState.RUNNING, SKIPPED], SKIPPED),
        ([SKIPPED, FAILED], TaskState.UPSTREAM_FAILED),
        ([TaskState.RUNNING, TaskState.UPSTREAM_FAILED], TaskState.UPSTREAM_FAILED),
    ],
)
def test_all_success_waits_for_all_and_ends_with_the_first_that_did_not(
    upstream: list[TaskState], state: TaskState | None
) -> None:
    assert all_success([{one} for one in upstream]) is state


def test_a_task_with_several_instances_counts_as_all_of_them() -> None:
    assert all_success([{SUCCESS, TaskState.RUNNING}]) is None
    assert all_success([{SUCCESS, FAILED}]) is TaskState.UPSTREAM_FAILED


def test_a_run_failed_if_any_of_its_leaves_did() -> None:
    assert run_state([{SUCCESS}, {SKIPPED}]) is RunState.SUCCESS
    assert run_state([{SUCCESS}, {SUCCESS, FAILED}]) is RunState.FAILED
    assert run_state([{TaskState.UPSTREAM_FAILED}]) is RunState.FAILED
    assert run_state([]) is RunState.SUCCESS
