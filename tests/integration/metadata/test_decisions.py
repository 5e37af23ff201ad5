"""What a scheduler reads and writes to decide."""

from tests.control import Control, graph
from turnout.metadata import decisions
from turnout.metadata.runs import FinishedRun, finish_running
from turnout.metadata.states import RunState, TaskState

NEVER = -1


def test_only_a_task_instance_that_nothing_has_happened_to_is_moved(control: Control) -> None:
    run = control.prepare(graph("d", {"a": [], "b": ["a"]}))
    wanted = [(run, "a", TaskState.SKIPPED), (run, "b", TaskState.SKIPPED), (run, "c", TaskState.SKIPPED)]
    assert control.do(lambda c: decisions.set_states(c, wanted)) == 1
    assert control.states(run) == {"a": "scheduled", "b": "skipped"}
    assert control.do(lambda c: decisions.set_states(c, [])) == 0


def test_news_name_the_tasks_that_changed_or_ask_for_a_look_at_the_whole_run(control: Control) -> None:
    one, two = (control.prepare(graph(name, {"a": [], "b": []})) for name in ("one", "two"))
    for run, task in ((one, "a"), (one, "b"), (one, "a"), (two, "a"), (two, None)):
        control.sql("INSERT INTO wakeup (dag_run_id, task_id) VALUES (:run, :task)", run=run, task=task)
    news = control.do(lambda c: decisions.lock_runs_with_news(c, 500))
    assert [(run.id, run.changed, run.is_running) for run in news] == [
        (one, frozenset({"a", "b"}), True),
        (two, None, True),
    ]
    assert control.do(lambda c: decisions.lock_runs_with_news(c, 500)) == []


def test_news_of_a_run_that_is_over_say_so(control: Control) -> None:
    run = control.prepare(graph("d", {"a": []}, empty="a"))
    control.sql("INSERT INTO wakeup (dag_run_id) VALUES (:run)", run=run)
    (news,) = control.do(lambda c: decisions.lock_runs_with_news(c, 500))
    assert not news.is_running


def test_states_are_read_of_the_tasks_asked_for(control: Control) -> None:
    run = control.prepare(graph("d", {"a": [], "b": ["a"], "c": ["b"]}))
    found = control.do(lambda c: decisions.read_states(c, {run: ["a", "b", "gone"], NEVER: ["a"], 0: []}))
    assert found == {run: {"a": {TaskState.SCHEDULED}, "b": {TaskState.NONE}}, NEVER: {}, 0: {}}


def test_a_run_with_something_unfinished_is_not_finished(control: Control) -> None:
    done, open_run = (control.prepare(graph(name, {"a": []})) for name in ("done", "open"))
    control.sql("UPDATE task_instance SET state = 'removed' WHERE dag_run_id = :run", run=done)
    wanted = {done: RunState.SUCCESS, open_run: RunState.SUCCESS}
    assert control.do(lambda c: decisions.without_unfinished(c, [done, open_run])) == {done}
    assert control.do(lambda c: finish_running(c, wanted)) == [FinishedRun(done, "done", "run", RunState.SUCCESS)]
    assert control.do(lambda c: finish_running(c, wanted)) == []
    assert control.run_state(open_run) == "running"
