"""The board of one run: what is known of it, and what follows from that."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from turnout.metadata.states import FINISHED, GOOD_PAST, TaskState
from turnout.metadata.versions import Content
from turnout.tasks import deciding
from turnout.tasks.deciding import Tasks


class Board:
    """Decides for one run, reading no more states than the news call for.

    `wanted` and `wanted_past` say what is needed next, `learn` takes it, `decide` draws the conclusions, and these may
    make more states needed; nothing is left to decide when `is_done`.

    Args:
        content: the content of the run's DAG version.
        changed: the tasks that have news; None for all of them.
    """

    def __init__(self, content: Content, changed: AbstractSet[str] | None) -> None:
        self.content = content
        self._tasks: Tasks = content["tasks"]
        self._states: dict[str, AbstractSet[TaskState]] = {}
        self._past: dict[str, bool] = {}
        self._moves: dict[str, TaskState] = {}
        self._ended = set() if changed is None else self._tasks.keys() & changed
        self._candidates = set(self._tasks) if changed is None else self._called_for(self._ended)
        self._stops = False
        self._is_stopped = False

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to decide."""
        return not self._candidates

    @property
    def must_stop(self) -> bool:
        """Whether all that is unfinished must be stopped, except the teardowns, since a task failed (`fail_fast`)."""
        return self._stops and not self._is_stopped

    @property
    def teardowns(self) -> list[str]:
        """The tasks that are teardowns."""
        return [task for task, spec in self._tasks.items() if spec["is_teardown"]]

    @property
    def leaves(self) -> set[str]:
        """The tasks that decide how the run ends."""
        return deciding.leaves(self._tasks)

    def wanted(self) -> set[str]:
        """Name the tasks whose states are needed and not known yet."""
        needed = self._candidates.union(*(deciding.needed_for(self._tasks, task) for task in self._candidates))
        return needed - self._states.keys()

    def wanted_past(self) -> dict[str, Iterable[str]]:
        """Name the tasks that could run if the past allowed it, each with those that it waits for in the run before."""
        return {
            task: deciding.past_of(self._tasks, task)
            for task in self._candidates
            if self._depends_on_past(task) and task not in self._past and self._verdict(task) is TaskState.SCHEDULED
        }

    def learn(self, states: Mapping[str, AbstractSet[TaskState]]) -> None:
        """Take in the states of tasks."""
        self._states |= states
        if self.content["fail_fast"]:
            self._stops |= any(deciding.fails_run_fast(self._tasks, task, states[task]) for task in states)

    def learn_past(self, is_good: Mapping[str, bool]) -> None:
        """Take in whether the run before allows tasks to run."""
        self._past |= is_good

    def decide(self) -> None:
        """Decide what the candidates become; those that are thereby finished make candidates of what follows them."""
        decided = {task: state for task in self._candidates if (state := self._decision(task)) is not None}
        self._moves |= decided
        self._states |= {task: self._states[task] - {TaskState.NONE} | {state} for task, state in decided.items()}
        ended = {task for task, state in decided.items() if state in FINISHED}
        self._ended |= ended
        self._candidates = self._called_for(ended)

    def take_moves(self) -> list[tuple[str, TaskState]]:
        """Hand out what was decided since the last call, to be written."""
        moves, self._moves = self._moves, {}
        return sorted(moves.items())

    def note_stopped(self, stopped: AbstractSet[str]) -> None:
        """Take in which tasks were stopped; teardowns may follow them."""
        self._is_stopped = True
        for task in stopped:
            self._states.pop(task, None)
        self._ended |= stopped & self._tasks.keys()
        self._candidates = self._called_for(stopped & self._tasks.keys())

    def waiting_in_next_run(self) -> set[str]:
        """Name the tasks that may wait in the next run for something that has ended well here."""
        good = (task for task in self._ended if self._states.get(task, GOOD_PAST) <= GOOD_PAST)
        return {other for task in good for other in deciding.past_for(self._tasks, task)}

    def _decision(self, task: str) -> TaskState | None:
        state = self._verdict(task)
        if state is not TaskState.SCHEDULED:
            return state
        if self._depends_on_past(task) and not self._past.get(task):
            return None
        if self._stops and not self._tasks[task]["is_teardown"]:
            return None
        return state if self._tasks[task]["sends_to_worker"] else TaskState.SUCCESS

    def _verdict(self, task: str) -> TaskState | None:
        if TaskState.NONE not in self._states.get(task, ()):
            return None
        verdict = deciding.verdict_on(self._tasks, task, self._states)
        return None if verdict is None else TaskState(verdict)

    def _depends_on_past(self, task: str) -> bool:
        return bool(self._tasks[task]["depends_on_past"])

    def _called_for(self, ended: AbstractSet[str]) -> set[str]:
        """Name the tasks to decide for, after some have ended, or have news: the end of something in the run before.

        With `fail_fast` those that have ended are looked at themselves, since one may have failed.
        """
        own = {task for task in ended if self.content["fail_fast"] or self._depends_on_past(task)}
        return own.union(*(deciding.affected_by(self._tasks, task) for task in ended))
