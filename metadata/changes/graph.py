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

    A task needs the setups that come directly before it, and those between which and their teardowns it stands.
    """
    wanted = set(tasks)
    needed = {name for task in wanted for name in _setups(content, task)} | {
        task for task in wanted if content["tasks"][task]["is_setup"]
    }
    teardowns = {name for setup in needed for name in content["tasks"][setup]["downstream"]}
    return wanted | needed | {name for name in teardowns if content["tasks"][name]["is_teardown"]}


def _setups(content: Content, task: str) -> set[str]:
    spec = content["tasks"][task]
    if spec["is_teardown"]:
        return set()
    return {*spec["setups"], *(name for name in spec["upstream"] if content["tasks"][name]["is_setup"])}


def _reach(content: Content, tasks: Iterable[str], direction: str) -> set[str]:
    found: set[str] = set()
    ahead = set(tasks)
    while ahead:
        found |= ahead
        ahead = {name for task in ahead for name in content["tasks"][task][direction]} - found
    return found
