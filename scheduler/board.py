"""The board of one run: what is known of it, and what follows from that."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from turnout.metadata.states import FINISHED, RunState, TaskState
from turnout.metadata.versions import Content
from turnout.scheduler.trigger_rules import RULES

_FAILED = frozenset({TaskState.FAILED, TaskState.UPSTREAM_FAILED})


class Board:
    """Decides for one run, reading no more states than the news call for.

    `wanted` says which states are needed next, `learn` takes them, `decide` draws the conclusions, and these may make
    more states needed; nothing is left to decide when `wanted` is empty.

    Args:
        content: the content of the run's DAG version.
        changed: the tasks that have news; None for all of them.
    """

    def __init__(self, content: Content, changed: AbstractSet[str] | None) -> None:
        self._tasks: dict[str, Mapping[str, object]] = content["tasks"]
        self._states: dict[str, AbstractSet[TaskState]] = {}
        self._candidates = set(self._tasks) if changed is None else self._downstream(changed)
        self.decided: dict[str, TaskState] = {}

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to decide."""
        return not self._candidates

    def wanted(self) -> set[str]:
        """Name the tasks whose states are needed and not known yet."""
        needed = self._candidates.union(*(self._upstream(task) for task in self._candidates))
        return needed - self._states.keys()

    def learn(self, states: Mapping[str, AbstractSet[TaskState]]) -> None:
        """Take in the states of tasks."""
        self._states |= states

    def decide(self) -> None:
        """Decide what the candidates become; those that are thereby finished make candidates of what follows them."""
        finished = set()
        for task in self._candidates:
            state = self._verdict(task)
            if state is not None:
                self.decided[task] = state
                self._states[task] = {state}
                if state in FINISHED:
                    finished.add(task)
        self._candidates = self._downstream(finished)

    def leaves(self) -> set[str]:
        """Name the tasks that have nothing downstream."""
        return {task for task in self._tasks if not self._tasks[task]["downstream"]}

    def _verdict(self, task: str) -> TaskState | None:
        if TaskState.NONE not in self._states.get(task, ()):
            return None
        rule = RULES[str(self._tasks[task]["trigger_rule"])]
        state = rule([self._states.get(name, frozenset()) for name in self._upstream(task)])
        if state is TaskState.SCHEDULED and not self._tasks[task]["sends_to_worker"]:
            return TaskState.SUCCESS
        return state

    def _upstream(self, task: str) -> Iterable[str]:
        return self._tasks[task]["upstream"]  # type: ignore[return-value]

    def _downstream(self, tasks: AbstractSet[str]) -> set[str]:
        return {name for task in tasks if task in self._tasks for name in self._tasks[task]["downstream"]}  # type: ignore[attr-defined]


def run_state(leaves: Iterable[AbstractSet[TaskState]]) -> RunState:
    """Say how a run ended of which all task instances are finished: it failed if any of its leaves did."""
    return RunState.FAILED if any(states & _FAILED for states in leaves) else RunState.SUCCESS
