"""A DAG as its author means it, and what becomes of its tasks: asked plainly, each time of everything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

FINISHED = ("success", "failed", "skipped", "upstream_failed", "removed")
FAILURES = ("failed", "upstream_failed")


class Told:
    """What says of itself only what is unusual about it, so that a failing example can be read."""

    def __repr__(self) -> str:
        usual = type(self)("", {}) if isinstance(self, Dag) else Task("")  # type: ignore[call-arg]
        told = [field.name for field in fields(usual) if getattr(self, field.name) != getattr(usual, field.name)]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in told)})"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(repr(self))


@dataclass(repr=False)
class Task(Told):
    """A task as its author declared it."""

    name: str
    upstream: set[str] = field(default_factory=set)
    rule: str = "all_success"
    is_empty: bool = False
    is_setup: bool = False
    teardown_of: str | None = None
    fails_run: bool = False  # of a teardown: its failure counts
    retries: int = 0
    retries_at_once: bool = True
    pools: dict[str, int] = field(default_factory=lambda: {"default_pool": 1})
    weight: int = 1
    weight_rule: str = "downstream"
    most_per_dag: int | None = None
    most_per_run: int | None = None
    depends_on_past: bool = False
    waits_for_downstream: bool = False
    is_mapped: bool = False  # it has two instances

    @property
    def is_teardown(self) -> bool:
        return self.teardown_of is not None

    @property
    def first_pool(self) -> str:
        return next(iter(self.pools))


@dataclass(repr=False)
class Dag(Told):
    """A DAG as its author declared it."""

    dag_id: str
    tasks: dict[str, Task]
    max_active_runs: int = 3
    max_active_tasks: int = 16
    fail_fast: bool = False
    has_timeout: bool = False
    is_paused: bool = False

    def downstream(self, name: str) -> set[str]:
        return {other.name for other in self.tasks.values() if name in other.upstream}

    def after(self, name: str) -> set[str]:
        """All tasks that come after one, near and far."""
        near = self.downstream(name)
        return near.union(*(self.after(other) for other in near))

    def before(self, name: str) -> set[str]:
        """All tasks that come before one, near and far."""
        return {other for other in self.tasks if name in self.after(other)}

    def weight(self, name: str) -> int:
        """The priority of a task."""
        task = self.tasks[name]
        counted = {"downstream": self.after, "upstream": self.before, "absolute": lambda _: set()}[task.weight_rule]
        return task.weight + sum(self.tasks[other].weight for other in counted(name))

    def teardowns(self, setup: str) -> set[str]:
        return {task.name for task in self.tasks.values() if task.is_teardown and setup in task.upstream}

    def setups_around(self, name: str) -> set[str]:
        """The setups that a task needs without following them at once: it is before their teardown, if there is one."""
        if self.tasks[name].is_teardown:
            return set()
        return {
            setup.name
            for setup in self.tasks.values()
            if setup.is_setup and name in self.after(setup.name) - self.downstream(setup.name)
            if not self.teardowns(setup.name) or self.after(name) & self.teardowns(setup.name)
        }

    def with_setups(self, names: set[str]) -> set[str]:
        """Tasks that run again, with the setups that they need and the teardowns of these."""
        setups = {name for name in self.tasks if self.tasks[name].is_setup}
        needed = names & setups
        for name in names:
            if not self.tasks[name].is_teardown:
                needed |= self.setups_around(name) | (self.tasks[name].upstream & setups)
        return names | needed.union(*(self.teardowns(setup) for setup in needed))

    def decides_run(self, name: str) -> bool:
        """Whether the run fails with this task: no work follows it, or it is a teardown that said so."""
        task = self.tasks[name]
        if task.is_teardown:
            return task.fails_run
        return all(self.tasks[other].is_teardown for other in self.downstream(name))

    def verdict(self, name: str, states: Mapping[str, Sequence[str]]) -> str | None:
        """What a task becomes that nothing has happened to, by the states of the instances of all tasks."""
        around = by_rule("all_success", [states[setup] for setup in self.setups_around(name)])
        if around != "scheduled":
            return around
        task = self.tasks[name]
        upstream = [states[other] for other in task.upstream]
        if task.rule == "all_done_setup_success":
            return _of_teardown(upstream, [states[other] for other in task.upstream if self.tasks[other].is_setup])
        return by_rule(task.rule, upstream)


def by_rule(rule: str, upstream: Sequence[Sequence[str]]) -> str | None:  # noqa: C901, PLR0911, PLR0912
    """What a trigger rule says: `scheduled`, `skipped` or `upstream_failed`; None while that may still change."""
    found = [state for states in upstream for state in states]
    success, skipped, failed = (found.count(state) for state in ("success", "skipped", "failed"))
    bad = failed + found.count("upstream_failed")
    is_over = all(state in FINISHED for state in found)
    match rule:
        case _ if not found:
            return "scheduled"
        case "always":
            return "scheduled"
        case "one_success" if success:
            return "scheduled"
        case "one_failed" if bad:
            return "scheduled"
        case "one_done" if success or failed:
            return "scheduled"
        case "all_success" | "none_failed" | "none_failed_min_one_success" if bad:
            return "upstream_failed"
        case "all_failed" if success or skipped:
            return "skipped"
        case "all_skipped" if success or bad:
            return "skipped"
        case "all_done_min_one_success" | "none_skipped" if skipped:
            return "skipped"
        case _ if not is_over:
            return None
        case "one_success" if bad:
            return "upstream_failed"
        case "all_done_min_one_success" if not success:
            return "upstream_failed"
        case "one_success" | "one_failed" | "one_done":
            return "skipped"
        case "all_success" if skipped:
            return "skipped"
        case "none_failed_min_one_success" if not success:
            return "skipped"
    return "scheduled"


def _of_teardown(upstream: Sequence[Sequence[str]], setups: Sequence[Sequence[str]]) -> str | None:
    """A teardown runs when all is over, if any of its setups succeeded."""
    of_setups = [state for states in setups for state in states]
    if setups and all(state in FINISHED for state in of_setups) and "success" not in of_setups:
        return "upstream_failed" if set(of_setups) & set(FAILURES) else "skipped"
    return by_rule("all_done", upstream)
