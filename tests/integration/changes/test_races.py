"""A person beside every other step, on two connections: whoever is first, both end well.

One of the two holds its transaction open until the other waits for it, or has passed it by. Then everything goes on to
its end, which must be the one that the person asked for, with an archive that tells how each attempt ended.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from random import Random
from threading import Event
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from tests.control import BATCH, Control, graph, key_of
from tests.integration.changes.conftest import hold
from turnout.metadata import attempts
from turnout.metadata.attempts import AttemptKey, FinishedAttempt
from turnout.metadata.changes.cancel import cancel_runs, cancel_tasks
from turnout.metadata.changes.clear import clear
from turnout.metadata.changes.delete import delete_runs
from turnout.metadata.changes.mark import mark_tasks
from turnout.metadata.changes.selection import RunSelection, TaskSelection
from turnout.metadata.errors import ConflictError, NotFoundError
from turnout.metadata.messages import AttemptMessage
from turnout.metadata.states import Cause, Outcome, TaskState
from turnout.scheduler.decide import decide
from turnout.scheduler.queue import queue_ready
from turnout.scheduler.start_runs import start_runs

Eventually = Callable[..., object]
Work = Callable[[Connection], Any]
RUN = RunSelection("d", "run")


@dataclass
class Scene:
    """A run of two tasks, `a` and then `b`, brought to the point where a step is about to be made."""

    control: Control
    worker: int = 0
    messages: list[AttemptMessage] = field(default_factory=list)
    keys: list[AttemptKey] = field(default_factory=list)

    def scheduled(self) -> None:
        self.control.prepare(graph("d", {"a": [], "b": ["a"]}, task={"retries": 1}))
        self.worker = self.control.worker()

    def queued(self) -> None:
        self.scheduled()
        self.messages = list(self.control.queue().messages)

    def running(self) -> None:
        self.queued()
        self.keys = [attempt.key for attempt in self.control.claim(self.messages, self.worker)]

    def news(self) -> None:
        self.running()
        self.control.finish(self.keys, return_value="1")

    def last_news(self) -> None:
        self.news()
        self.control.decide()
        self.control.finish([attempt.key for attempt in hold(self.control)])

    def retry_due(self) -> None:
        self.running()
        self.control.finish(self.keys, TaskState.UP_FOR_RETRY, cause=Cause.ERROR, retry_delay_s=0)

    def worker_dead(self) -> None:
        self.running()
        self.control.sql("UPDATE process SET state = 'dead' WHERE id = :id", id=self.worker)

    def cleared(self) -> None:
        self.last_news()
        self.control.decide()
        self.control.do(lambda c: clear(c, TaskSelection(RUN), actor="ada"))

    def finish(self, connection: Connection) -> list[AttemptKey]:
        ended = [FinishedAttempt(key, TaskState.SUCCESS, Outcome.SUCCESS, return_value="1") for key in self.keys]
        return attempts.finish_if_running(connection, ended)


#: For each step, the scene before it, and the step.
STEPS: dict[str, tuple[Callable[[Scene], None], Callable[[Scene, Connection], Any]]] = {
    "start": (Scene.cleared, lambda _, c: start_runs(c, BATCH)),
    "decide": (Scene.news, lambda s, c: decide(c, s.control.versions, BATCH)),
    "finish the run": (Scene.last_news, lambda s, c: decide(c, s.control.versions, BATCH)),
    "schedule the retry": (Scene.retry_due, lambda s, c: decide(c, s.control.versions, BATCH)),
    "queue": (Scene.scheduled, lambda s, c: queue_ready(c, s.control.scheduler_id, BATCH)),
    "claim": (Scene.queued, lambda s, c: attempts.claim_queued(c, s.worker, [key_of(m) for m in s.messages])),
    "give back": (
        Scene.queued,
        lambda s, c: attempts.give_back_queued(c, [key_of(m) for m in s.messages], Cause.MESSAGE_LOST),
    ),
    "finish": (Scene.running, Scene.finish),
    "lose": (Scene.worker_dead, lambda _, c: attempts.lose_by_dead_workers(c, 3)),
}


def _cancel(connection: Connection) -> bool:
    try:
        cancel_runs(connection, RUN, actor="ada")
    except ConflictError:  # it had ended just before
        return False
    return True


#: What a person does, and how the run ends of which it is done.
DEEDS: dict[str, tuple[Work, str | None]] = {
    "clear": (lambda c: clear(c, TaskSelection(RUN), actor="ada"), "success"),
    "mark": (lambda c: mark_tasks(c, TaskSelection(RUN, ("a",)), TaskState.SUCCESS, actor="ada"), "success"),
    "cancel": (_cancel, "failed"),
    "delete": (lambda c: delete_runs(c, RUN, actor="ada", force=True), None),
}


def side_by_side(engine: Engine, first: Work, second: Work, eventually: Eventually) -> tuple[Any, Any]:
    """Do both, the second while the transaction of the first is open; a deadlock would raise."""

    def begin_second() -> Any:
        with engine.begin() as connection:
            return second(connection)

    with ThreadPoolExecutor(1) as threads:
        with engine.begin() as connection:
            done = first(connection)
            other = threads.submit(begin_second)
            eventually(lambda: other.done() or is_waiting(engine))
        return done, other.result(60)


def is_waiting(engine: Engine) -> bool:
    with engine.connect() as connection:
        return bool(
            connection.scalar(
                text("""
                    SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock' AND state = 'active'
                """)
            )
        )


def settle(control: Control) -> None:
    """Let everything go on until nothing does."""
    worker = control.worker()
    while True:
        control.start()
        decided = control.decide()
        control.claim(control.queue().messages, worker)
        queued = control.sql("SELECT id, attempt_id FROM task_instance WHERE state = 'queued'")
        control.do(lambda c, keys=queued: attempts.claim_queued(c, worker, [AttemptKey(*key) for key in keys]))
        running = control.sql("SELECT id, attempt_id FROM task_instance WHERE state = 'running'")
        control.finish([AttemptKey(*key) for key in running])
        if not (decided.runs or running):
            break


@pytest.mark.parametrize("person_is_first", [True, False], ids=["person first", "step first"])
@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("step", STEPS)
def test_a_person_and_a_step_do_each_other_no_harm(
    engine: Engine, eventually: Eventually, step: str, deed: str, *, person_is_first: bool
) -> None:
    control = Control(engine)
    scene = Scene(control)
    prepare, work = STEPS[step]
    act, end = DEEDS[deed]
    prepare(scene)
    if person_is_first:
        by_person, _ = side_by_side(engine, act, partial(work, scene), eventually)
    else:
        _, by_person = side_by_side(engine, partial(work, scene), act, eventually)
    if deed == "cancel":
        assert control.sql("SELECT state FROM task_instance WHERE state NOT IN ('success', 'failed', 'skipped')") == []
    settle(control)
    if by_person is False:
        end = "success"  # too late to cancel
    if end is None:
        assert control.sql("SELECT (SELECT count(*) FROM task_instance) + (SELECT count(*) FROM dag_run)") == [0]
    else:
        assert control.sql("SELECT state FROM dag_run") == [end]
    assert control.sql("SELECT state FROM task_instance WHERE state NOT IN ('success', 'failed', 'skipped')") == []
    assert end != "success" or set(control.sql("SELECT state FROM task_instance")) == {"success"}
    assert control.sql("SELECT id FROM task_instance WHERE attempt_id IS NOT NULL AND outcome IS NULL") == []
    assert control.sql("SELECT attempt_id FROM task_attempt WHERE outcome IS NULL OR ended_at IS NULL") == []


@pytest.mark.parametrize(
    ("first", "second", "end"),
    [
        ("clear", "cancel", "failed"),
        ("cancel", "clear", "success"),
        ("mark", "clear", "success"),
        ("clear", "mark", "success"),
    ],
)
def test_two_persons_are_served_one_after_the_other(
    engine: Engine, eventually: Eventually, first: str, second: str, end: str
) -> None:
    control = Control(engine)
    scene = Scene(control)
    scene.running()
    side_by_side(engine, DEEDS[first][0], DEEDS[second][0], eventually)
    settle(control)
    assert control.sql("SELECT state FROM dag_run") == [end]
    assert control.do(scene.finish) == []


def test_what_another_person_has_just_deleted_is_not_there(engine: Engine, eventually: Eventually) -> None:
    control = Control(engine)
    Scene(control).running()
    with pytest.raises(NotFoundError, match="There is no run of DAG d called run"):
        side_by_side(engine, DEEDS["delete"][0], DEEDS["clear"][0], eventually)


@pytest.mark.parametrize(("person_is_first", "outcome"), [(True, "cancelled"), (False, "success")])
def test_the_archive_says_which_of_the_two_was_first(
    engine: Engine, eventually: Eventually, outcome: str, *, person_is_first: bool
) -> None:
    scene = Scene(Control(engine))
    scene.running()
    clear_it = DEEDS["clear"][0]
    pair = (clear_it, scene.finish) if person_is_first else (scene.finish, clear_it)
    done = side_by_side(engine, *pair, eventually)
    assert scene.control.sql("SELECT outcome FROM task_attempt") == [outcome]
    assert done[person_is_first] == ([] if person_is_first else scene.keys)
    assert scene.control.sql("SELECT key FROM xcom") == []


def test_an_outcome_is_refused_at_every_point_after_the_clear(engine: Engine) -> None:
    control = Control(engine)
    scene = Scene(control)
    scene.running()
    control.do(lambda c: clear(c, TaskSelection(RUN, ("a",)), actor="ada"))
    control.sql("UPDATE process SET slots = 0 WHERE id = :id", id=scene.worker)
    assert control.do(scene.finish) == []
    control.decide()
    assert control.do(scene.finish) == []
    control.sql("UPDATE process SET slots = 9 WHERE id = :id", id=scene.worker)
    (message,) = control.queue().messages
    assert control.do(scene.finish) == []
    (claimed,) = control.claim([message], scene.worker)
    assert control.do(scene.finish) == []
    assert control.finish([claimed.key]) == [claimed.key]


def test_a_late_wake_up_of_a_cleared_task_moves_nothing_downstream(engine: Engine) -> None:
    control = Control(engine)
    scene = Scene(control)
    scene.news()
    control.do(lambda c: clear(c, TaskSelection(RUN, ("a",)), actor="ada"))
    control.sql("DELETE FROM wakeup WHERE task_id IS NULL")
    (run,) = control.sql("SELECT id FROM dag_run")
    control.decide()
    assert control.states(run)["b"] == "none"


def test_many_at_once_bring_every_run_to_its_end(engine: Engine) -> None:
    """Two schedulers with their workers, and two persons who do what they like; in the end everything is cleared."""
    control = Control(engine)
    upstream = {f"t{n}": [f"t{n - 1}"] if n % 4 else [] for n in range(12)}
    control.declare(graph("d", upstream, task={"retries": 1}))
    for number in range(6):
        control.insert_run("d", f"run{number}")
    crowd = Crowd(control)
    with ThreadPoolExecutor(4) as threads:
        schedulers = [threads.submit(crowd.schedule) for _ in range(2)]
        persons = [threads.submit(crowd.meddle, number) for number in range(2)]
        for meddled in persons:
            meddled.result(120)
        crowd.everything_again()
        for scheduled in schedulers:
            scheduled.result(120)
    assert set(control.sql("SELECT state FROM dag_run")) == {"success"}
    assert set(control.sql("SELECT state FROM task_instance")) == {"success"}
    assert len(crowd.claimed) == len(set(crowd.claimed))
    assert control.sql("SELECT attempt_id FROM task_attempt WHERE outcome IS NULL OR ended_at IS NULL") == []


class Crowd:
    """Everybody who works on the DAG `d` at the same time."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self.worker = control.worker(slots=1000)
        self.claimed: list[Any] = []
        self.is_last_round = Event()

    def schedule(self) -> None:
        """Schedule, and work, until all is done after the last round began."""
        mine = Control(self.control.engine)
        while True:
            last = self.is_last_round.is_set()
            mine.start(2)
            mine.decide(3)
            held = mine.claim(mine.queue().messages, self.worker)
            self.claimed += [attempt.attempt_id for attempt in held]
            mine.finish([attempt.key for attempt in held])
            if last and not mine.sql("SELECT 1 FROM dag_run WHERE state IN ('queued', 'running') LIMIT 1"):
                return

    def meddle(self, seed: int) -> None:
        """Do forty things by hand."""
        dice = Random(seed)  # noqa: S311  a game, no secret
        for _ in range(40):
            runs = RunSelection("d", f"run{dice.randrange(6)}", past=dice.random() < 0.3)
            tasks = TaskSelection(runs, (f"t{dice.randrange(12)}",), downstream=dice.random() < 0.5)
            state = dice.choice([TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED])
            deeds: list[Work] = [
                partial(clear, selection=tasks, actor="ada"),
                partial(mark_tasks, selection=tasks, state=state, actor="ada"),
                partial(cancel_tasks, selection=tasks, actor="ada"),
            ]
            self.control.do(dice.choice(deeds))

    def everything_again(self) -> None:
        """Clear all runs."""
        everything = TaskSelection(RunSelection("d", "run0", past=True, future=True))
        self.control.do(lambda c: clear(c, everything, actor="ada"))
        self.is_last_round.set()
