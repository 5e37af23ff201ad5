"""What a person may change, in the plain model."""

from collections.abc import Sequence

from tests.property.model import Instance, Model, Run

NOT_BEGUN = ("none", "scheduled", "queued")


def chosen(model: Model, run: Run, *, past: bool, future: bool) -> list[Run]:
    """The runs of a selection."""
    of_dag = [other for other in model.runs.values() if other.dag is run.dag]
    return [
        other
        for other in of_dag
        if other is run or (past and other.date < run.date) or (future and other.date > run.date)
    ]


def reached(run: Run, names: set[str], *, upstream: bool, downstream: bool) -> set[str]:
    """The tasks of a selection."""
    found = set(names)
    for name in names:
        found |= run.dag.before(name) if upstream else set()
        found |= run.dag.after(name) if downstream else set()
    return found


def clear(runs: Sequence[Run], names: set[str], *, only_failed: bool) -> None:
    """Run tasks again, with the setups that they need and their teardowns; a finished run starts again."""
    for run in runs:
        cleared = [one for one in run.instances if one.task in names and one.state != "none"]
        if only_failed:
            cleared = [one for one in cleared if one.state in ("failed", "upstream_failed")]
        again = {one.task for one in cleared}
        more = run.dag.with_setups(again) - again
        cleared += [one for one in run.instances if one.task in more and one.state != "none"]
        _clear(run, cleared)
        if cleared and run.is_finished:
            run.restart()


def mark(runs: Sequence[Run], names: set[str], state: str) -> None:
    """Give task instances a state; what had not run because of them runs now, and their run ends by what they are."""
    for run in runs:
        marked = [one for one in run.instances if one.task in names and one.state not in (state, "removed")]
        for one in marked:
            one.state = state
        tasks = {one.task for one in marked}
        behind = {name for task in tasks for name in run.dag.after(task)} - tasks
        released = [one for one in run.instances if one.task in behind and one.state == "upstream_failed"]
        if state == "failed":
            released = []
        _clear(run, released)
        may_end_otherwise = run.state == ("success" if state == "failed" else "failed")
        if run.is_finished and (released or (marked and may_end_otherwise)):
            run.restart()


def cancel_tasks(runs: Sequence[Run], names: set[str]) -> None:
    """End what has not ended: it fails."""
    for one in [one for run in runs for one in run.instances]:
        if one.task in names and not one.is_finished:
            one.state = "failed"


def end_run(run: Run, state: str) -> None:
    """Cancel a run, or mark it failed or success."""
    for one in run.instances:
        if state == "success":
            one.state = "success"
        elif not one.is_finished:
            one.state = "skipped" if one.state in NOT_BEGUN else "failed"
    run.state = state


def _clear(run: Run, instances: Sequence[Instance]) -> None:
    for one in instances:
        one.clear(run.dag.tasks[one.task].retries)
