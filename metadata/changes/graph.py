"""Which tasks belong together, by the content of a DAG version."""

from collections.abc import Iterable

from turnout.metadata.versions import Content


def downstream_of(content: Content, tasks: Iterable[str]) -> set[str]:
    """Name the tasks that wait for some tasks, near and far, and these themselves."""
    return _reach(content, tasks, "downstream")


def upstream_of(content: Content, tasks: Iterable[str]) -> set[str]:
    """Name the tasks that some tasks wait for, near and far, and these themselves."""
    return _reach(content, tasks, "upstream")


def with_setups(content: Content, tasks: Iterable[str]) -> set[str]:
    """Add the setups that some tasks need to run again, and the teardowns of these setups.

    A task needs a setup upstream of it, near or far, unless every teardown of that setup comes before the task.
    """
    wanted = set(tasks)
    setups = {name for name in upstream_of(content, wanted) if _is(content, name, "is_setup")}
    for setup in setups:
        teardowns = {name for name in content["tasks"][setup]["downstream"] if _is(content, name, "is_teardown")}
        if setup in tasks or not teardowns or upstream_of(content, teardowns) & set(tasks):
            wanted |= {setup} | teardowns
    return wanted


def _is(content: Content, task: str, role: str) -> bool:
    return bool(content["tasks"][task].get(role))


def _reach(content: Content, tasks: Iterable[str], direction: str) -> set[str]:
    found: set[str] = set()
    ahead = set(tasks)
    while ahead:
        found |= ahead
        ahead = {name for task in ahead for name in content["tasks"][task][direction]} - found
    return found
