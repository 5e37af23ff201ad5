"""The board of a run: partial news lead to what a look at everything would, with all that tasks can ask for."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.control import graph
from turnout.metadata.states import FINISHED, TaskState
from turnout.scheduler.board import Board
from turnout.tasks.deciding import verdict_on
from turnout.tasks.serialization import serialize
from turnout.tasks.trigger_rule import TriggerRule

Graph = dict[str, list[str]]
States = dict[str, TaskState]
NONE, SUCCESS, FAILED, SKIPPED = TaskState.NONE, TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED
ENDINGS = (SUCCESS, SUCCESS, FAILED, SKIPPED)
FAN_IN: Graph = {f"t{number}": [] for number in range(100)} | {"end": [f"t{number}" for number in range(100)]}


def content(upstream: Graph, *, empty: str = "", **arguments: Any) -> dict[str, Any]:
    return serialize(graph("d", upstream, empty=empty, **arguments))


def look(dag: Mapping[str, Any], states: States, changed: set[str] | None, past: Mapping[str, bool]) -> States:
    """Let a board decide, as step 3 does, and give it only what it asks for."""
    board = Board(dict(dag), changed)
    while not board.is_done:
        board.learn({name: {states[name]} for name in board.wanted()})
        board.learn_past({name: past[name] for name in board.wanted_past()})
        board.decide()
    return dict(board.take_moves())


def reference(dag: Mapping[str, Any], states: States, past: Mapping[str, bool]) -> States:
    """The plainest way to say the same: look at every task again and again until nothing changes."""
    states = dict(states)
    while True:
        before = dict(states)
        for name, task in dag["tasks"].items():
            verdict = verdict_on(dag["tasks"], name, {other: {state} for other, state in states.items()})
            if states[name] is not NONE or verdict is None:
                continue
            if verdict != "scheduled":
                states[name] = TaskState(verdict)
            elif past[name] or not task["depends_on_past"]:
                states[name] = TaskState.SCHEDULED if task["sends_to_worker"] else SUCCESS
        if states == before:
            return states


@st.composite
def dags(draw: st.DrawFn) -> dict[str, Any]:
    """Random DAGs: a task waits for some of those before it, by any rule; some have nothing to run, or are setups."""
    size = draw(st.integers(1, 9))
    names = [f"t{n}" for n in range(size)]
    upstream = {name: sorted(draw(st.sets(st.sampled_from(names[:n])))) if n else [] for n, name in enumerate(names)}
    made = graph("d", upstream, empty=draw(st.sets(st.sampled_from(names))))
    for task in made.tasks:
        task.trigger_rule = draw(st.sampled_from(TriggerRule))
        task.depends_on_past = draw(st.booleans())
        task.is_setup = draw(st.booleans())
        task.is_teardown = not task.is_setup and draw(st.booleans())
    return serialize(made)


@given(dags(), st.data())
def test_partial_news_and_a_look_at_everything_agree_with_the_reference(
    dag: dict[str, Any], data: st.DataObject
) -> None:
    states = dict.fromkeys(dag["tasks"], NONE)
    past = {name: data.draw(st.booleans()) for name in states}
    changed: set[str] | None = None
    while True:
        expected = reference(dag, states, past)
        states |= look(dag, states, changed, past)
        assert states == expected
        assert look(dag, states, None, past) == {}
        running = sorted(name for name, state in states.items() if state is TaskState.SCHEDULED)
        if not running:
            break
        changed = data.draw(st.sets(st.sampled_from(running), min_size=1))
        states |= {name: data.draw(st.sampled_from(ENDINGS)) for name in sorted(changed)}
    if all(past.values()):
        assert set(states.values()) <= FINISHED


@given(dags())
def test_a_board_reads_only_what_is_next_to_the_news(dag: dict[str, Any]) -> None:
    last = f"t{len(dag['tasks']) - 1}"
    board = Board(dag, {last})
    assert board.wanted() <= {last, *dag["tasks"][last]["upstream"], *dag["tasks"][last]["setups"]}
    assert bool(board.wanted()) == dag["tasks"][last]["depends_on_past"]


def test_the_news_of_a_wide_fan_in_make_one_task_a_candidate() -> None:
    board = Board(content(FAN_IN), {"t7"})
    board.learn({name: {SUCCESS} for name in FAN_IN if name != "end"} | {"end": {NONE}})
    board.decide()
    assert board.take_moves() == [("end", TaskState.SCHEDULED)]
    assert board.take_moves() == []


def test_instances_that_have_ended_before_still_count_after_the_others_were_decided() -> None:
    dag = graph("d", {"a": [], "b": ["a"], "c": ["b"]})
    dag.get_task("c").trigger_rule = TriggerRule.ONE_SUCCESS
    board = Board(serialize(dag), {"a"})
    board.learn({"a": {SKIPPED}, "b": {NONE, SUCCESS}})
    board.decide()
    board.learn({"c": {NONE}})
    board.decide()
    assert board.take_moves() == [("b", SKIPPED), ("c", TaskState.SCHEDULED)]


def test_news_of_a_task_that_the_version_does_not_have_are_no_news() -> None:
    board = Board(content({"a": []}), {"gone"})
    assert board.is_done
    assert board.waiting_in_next_run() == set()


def test_the_past_is_asked_about_only_for_what_could_run_otherwise() -> None:
    board = Board(content({"a": [], "b": ["a"], "c": []}, task={"depends_on_past": True}), None)
    board.learn({"a": {NONE}, "b": {NONE}, "c": {SUCCESS}})
    assert board.wanted_past() == {"a": ("a",)}
    assert Board(content({"a": []}), None).wanted_past() == {}


def test_the_end_of_a_task_is_news_for_those_of_the_next_run_that_may_wait_for_it() -> None:
    waiting = content({"a": [], "b": ["a"], "c": []}, task={"wait_for_downstream": True})
    assert Board(waiting, {"b"}).waiting_in_next_run() == {"a", "b"}
    assert Board(content({"a": [], "b": ["a"]}, task={"depends_on_past": True}), {"b"}).waiting_in_next_run() == {"b"}
    assert Board(content({"a": [], "b": ["a"]}), {"a", "b"}).waiting_in_next_run() == set()
    failed = Board(waiting, {"c"})
    failed.learn({"c": {FAILED}})
    assert failed.waiting_in_next_run() == set()


def test_a_failure_stops_the_rest_once_if_the_dag_says_so() -> None:
    for fail_fast in (True, False):
        board = Board(content({"a": [], "b": []}, fail_fast=fail_fast), {"a"})
        board.learn({"a": {FAILED}} if fail_fast else {})
        board.decide()
        assert board.must_stop is fail_fast
        board.note_stopped({"b"})
        assert not board.must_stop
