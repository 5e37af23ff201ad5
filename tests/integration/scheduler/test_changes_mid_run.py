"""What becomes of a run whose DAG or pool is changed under it."""

from functools import partial

import pytest

from tests.control import Control, graph
from turnout.metadata import pools
from turnout.metadata.errors import ConflictError
from turnout.metadata.messages import AttemptMessage
from turnout.metadata.pausing import set_paused


@pytest.fixture
def worker(control: Control) -> int:
    return control.worker()


def pause(control: Control, dag_id: str, *, paused: bool) -> None:
    control.do(lambda c: set_paused(c, dag_id, paused=paused, actor="test"))


def resize(control: Control, slots: int, name: str = "small") -> None:
    given = {"description": None, "include_deferred": None, "actor": "test"}
    control.do(partial(pools.set_pool, name=name, slots=slots, **given))


def names(messages: list[AttemptMessage]) -> set[str]:
    return {message.task_id for message in messages}


def test_of_a_dag_that_is_paused_what_runs_goes_on_and_nothing_more_begins(control: Control, worker: int) -> None:
    run = control.prepare(graph("d", {"a": [], "b": ["a"]}))
    waiting = control.insert_run("d", "waiting")
    messages = control.queue().messages
    pause(control, "d", paused=True)
    control.work(messages, worker)
    control.decide()
    control.start()
    assert not control.queue().messages
    assert control.states(run) == {"a": "success", "b": "scheduled"}
    assert (control.run_state(run), control.run_state(waiting)) == ("running", "queued")
    pause(control, "d", paused=False)
    assert names(list(control.queue().messages)) == {"b"}


def test_a_run_stays_with_the_version_on_which_it_started(control: Control, worker: int) -> None:
    run = control.prepare(graph("d", {"a": [], "gone": ["a"]}))
    control.declare(graph("d", {"a": [], "new": ["a"]}))
    for _ in range(2):
        control.work(control.queue().messages, worker)
        control.decide()
    assert control.states(run) == {"a": "success", "gone": "success"}
    assert control.run_state(run) == "success"


def test_of_a_dag_that_no_file_declares_the_runs_that_have_started_go_on_and_no_other_starts(
    control: Control, worker: int
) -> None:
    run = control.prepare(graph("d", {"a": [], "b": ["a"]}))
    waiting = control.insert_run("d", "waiting")
    control.sql("UPDATE dag SET is_active = false")
    for _ in range(2):
        control.work(control.queue().messages, worker)
        control.decide()
        control.start()
    assert (control.run_state(run), control.run_state(waiting)) == ("success", "queued")


def test_a_pool_made_smaller_than_its_use_ends_nothing_and_takes_nothing_until_there_is_room(
    control: Control, worker: int
) -> None:
    resize(control, 3)
    run = control.prepare(graph("d", {name: [] for name in "abcde"}, task={"pool": "small"}))
    first, *others = control.claim(control.queue().messages, worker)
    assert len(others) == 2
    resize(control, 1)
    for attempt in (first, *others):
        assert not control.queue().messages
        control.finish([attempt.key])
    for _ in range(2):
        (message,) = control.queue().messages
        control.work([message], worker)
    assert set(control.states(run).values()) == {"success"}


@pytest.mark.parametrize("pool", ["small", {"default_pool": 1, "small": 2}])
def test_a_pool_that_is_used_cannot_be_deleted(control: Control, worker: int, pool: str | dict[str, int]) -> None:
    resize(control, 3)
    control.prepare(graph("d", {"a": []}, task={"pool": pool}))
    control.declare(graph("d", {"other": []}))  # no DAG names it any longer
    assert worker
    assert len(control.queue().messages) == 1
    with pytest.raises(ConflictError, match="needed by 1 unfinished"):
        control.do(lambda c: pools.delete_pool(c, "small", actor="test"))


def test_a_pool_that_is_taken_away_by_force_stops_nothing_that_runs_and_what_waits_goes_on_with_the_next(
    control: Control, worker: int
) -> None:
    resize(control, 1)
    run = control.prepare(graph("d", {"a": [], "b": []}, task={"pool": "small"}))
    running = control.claim(control.queue().messages, worker)
    control.sql("DELETE FROM pool WHERE name = 'small'")
    assert not control.queue().messages
    control.finish([attempt.key for attempt in running])
    resize(control, 1)
    control.work(control.queue().messages, worker)
    control.decide()
    assert control.run_state(run) == "success"
