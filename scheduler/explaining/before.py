"""Reasons of a task instance whose turn has not come: the tasks before it, in its run and in the run before."""

from collections.abc import Mapping

from turnout.metadata import decisions
from turnout.metadata.engine import Connection
from turnout.metadata.listings.explanations import Reason, Why
from turnout.metadata.listings.spoken import counted, listed
from turnout.metadata.listings.task_facts import TaskFacts
from turnout.metadata.listings.upstream_facts import States, read_past_run, read_states
from turnout.metadata.states import FINISHED, GOOD_PAST, TaskState
from turnout.tasks.deciding import needed_for, past_of, verdict_on
from turnout.tasks.trigger_rule import RUN

_LISTED = 5


def before_reasons(connection: Connection, task: TaskFacts) -> list[Reason]:
    """Say what a task instance in state `none` of a running run waits for; nothing when a decision is due."""
    assert task.content is not None, "a running run has a version"  # noqa: S101  by the statement that starts runs
    tasks = task.content["tasks"]
    needed = set(needed_for(tasks, task.task_id))
    states = read_states(connection, task.dag_run_id, needed)
    verdict = verdict_on(tasks, task.task_id, {name: set(its) for name, its in states.items()})
    if verdict is None:
        return [_upstream(task, needed, states)]
    if verdict == RUN and tasks[task.task_id]["depends_on_past"]:
        return _past(connection, task)
    return []


def blocking_upstream(connection: Connection, task: TaskFacts, states: frozenset[TaskState]) -> list[str]:
    """Name the upstream tasks that are in some of the given states, with their state."""
    spec = task.task
    if spec is None or task.content is None:
        return []
    found = read_states(connection, task.dag_run_id, set(needed_for(task.content["tasks"], task.task_id)))
    return [f"{name} ({_said(its)})" for name, its in found.items() if states & its.keys()]


def _upstream(task: TaskFacts, needed: set[str], states: States) -> Reason:
    """Name those upstream that have not ended: the others have had their say under the trigger rule."""
    assert task.task is not None, "a decision was asked about it"  # noqa: S101  by the caller
    waiting = {name: states.get(name, {"none": 1}) for name in sorted(needed) if _is_open(states.get(name, {}))}
    said = [f"{name} ({_said(its)})" for name, its in waiting.items()]
    rule = task.task["trigger_rule"]
    message = f"It waits for {listed(said, most=_LISTED)} upstream, by trigger rule {rule}."
    first = next(iter(waiting), task.task_id)
    remedy = f"See what that waits for: turnout tasks explain {task.dag_id} {task.run_id} {first}"
    return Reason(Why.UPSTREAM, message, remedy, needed=len(waiting), who=said[:_LISTED], who_count=len(said))


def _past(connection: Connection, task: TaskFacts) -> list[Reason]:
    assert task.content is not None, "it has a version"  # noqa: S101  by the caller
    needs = set(past_of(task.content["tasks"], task.task_id))
    allowed = decisions.read_past(connection, {task.dag_run_id: {task.task_id: needs}})
    past = read_past_run(connection, task.dag_run_id, needs)
    if allowed[task.dag_run_id].get(task.task_id) or past is None:
        return []
    bad = {
        name: its
        for name in sorted(needs)
        if not (its := past.states.get(name, {"not there yet": 1})).keys() <= GOOD_PAST
    }
    said = [f"{name} ({_said(its)})" for name, its in bad.items()]
    message = (
        f"It depends on the run before, {past.run_id} ({past.state}): there {listed(said, most=_LISTED)} must have "
        "succeeded or been skipped."
    )
    remedy = f"See why: turnout tasks explain {task.dag_id} {past.run_id} {next(iter(bad), task.task_id)}"
    who = [f"{task.dag_id} {past.run_id} {name}" for name in bad]
    return [Reason(Why.PAST_RUN, message, remedy, needed=len(bad), who=who[:_LISTED], who_count=len(who))]


def _is_open(states: Mapping[str, int]) -> bool:
    return not states or not states.keys() <= FINISHED


def _said(states: Mapping[str, int]) -> str:
    if sum(states.values()) == 1:
        return next(iter(states))
    return ", ".join(f"{counted(number, 'instance')} {state}" for state, number in states.items())
