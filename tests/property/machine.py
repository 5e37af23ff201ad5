"""Drives the product and the model side by side: every rule does one thing to both, then both must be the same."""

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests import rows
from tests.control import BATCH, Control
from tests.property import person
from tests.property.declare import POOLS, dags, write
from tests.property.graph import Dag
from tests.property.model import Model, Process, Run
from tests.property.stand_ins import Chance, HeldBroker, SteadyLease
from tests.property.stories import Story
from turnout.config.settings import Settings
from turnout.executor.ending import Ending
from turnout.executor.verdict import judge
from turnout.metadata import attempts, pausing, pools, triggers
from turnout.metadata.attempts import AttemptKey, ClaimedAttempt
from turnout.metadata.changes import cancel, clear, delete, mark
from turnout.metadata.changes.selection import RunSelection, TaskSelection
from turnout.metadata.messages import AttemptMessage
from turnout.metadata.states import Cause, RunState, TaskState
from turnout.metadata.triggers import Trigger
from turnout.scheduler.lease import Lease
from turnout.scheduler.repair import Reaper

T = TypeVar("T")

DAY = datetime(2024, 1, 1, tzinfo=UTC)
MOST_RUNS = 5
ENDINGS = {
    "success": Ending("success"),
    "skipped": Ending("skipped"),
    "failed": Ending("failed", cause=Cause.ERROR, error="no"),
    "failed_for_good": Ending("failed", retry=False, cause=Cause.ERROR, error="never"),
    "lost": Ending("lost", cause=Cause.CHILD_KILLED, error="gone"),
}
#: Mostly things go well.
ending_names = st.sampled_from(["success"] * 4 + list(ENDINGS))
#: Of a list, the one at this place, counted on from its end.
places = st.integers(0, 1000)

EMPTY_TABLES = (
    "DELETE FROM dag; DELETE FROM dag_version; DELETE FROM wakeup; DELETE FROM process; DELETE FROM audit_log;"
    "DELETE FROM pool_start; DELETE FROM pool WHERE name <> 'default_pool'"
)


class LawMachine(RuleBasedStateMachine):
    """The whole law of scheduling, on one database that is emptied before each example."""

    def __init__(self, control: Control, settings: Settings, chance: Chance, story: Story) -> None:
        super().__init__()
        self.story = story
        self.control = control
        self.chance = chance
        chance.seed = 0
        self.settings = settings
        self.broker = HeldBroker()
        self.model = Model(max_infra_retries=settings.scheduler.max_infra_retries)
        self.sent: list[AttemptMessage] = []  # all messages there ever were
        self.held: list[ClaimedAttempt] = []  # all attempts that were ever claimed
        self.taken_dates: set[tuple[str, int]] = set()
        with control.engine.begin() as connection:
            connection.exec_driver_sql(EMPTY_TABLES)

    @initialize(
        first=dags("a"),
        second=st.none() | dags("b"),
        slots=st.lists(st.integers(1, 4), min_size=len(POOLS), max_size=len(POOLS)),
        parallelism=st.none() | st.integers(1, 4),
        has_two=st.booleans(),
        works=st.lists(st.lists(ending_names, min_size=1, max_size=3), max_size=3),
    )
    def begin(
        self,
        *,
        first: Dag,
        second: Dag | None,
        slots: list[int],
        parallelism: int | None,
        has_two: bool,
        works: list[list[str]],
    ) -> None:
        self.story.shape(first)
        self.model.parallelism = parallelism
        for pool, count in zip(POOLS, slots, strict=True):
            self.resize(pool, count)
        for dag in filter(None, (first, second)):
            self.model.dags[dag.dag_id] = dag
            self.control.declare(write(dag))
        for _ in range(1 + has_two):
            self.new_scheduler()
        self.new_worker(slots=4)
        for place, day in enumerate((3, 6)):
            self.trigger(place, day, 0)
        self.story.tell(self)
        for work in works:
            self.fill(0)
            self.work_off(work)
        self.fill(0)

    # Runs.

    @precondition(lambda self: len(self.model.runs) < MOST_RUNS)
    @rule(place=places, day=st.integers(0, 9), priority=st.sampled_from([0, 0, 0, 5]))
    def trigger(self, place: int, day: int, priority: int) -> None:
        dag = at(list(self.model.dags.values()), place)
        if (dag.dag_id, day) in self.taken_dates:
            return
        self.taken_dates.add((dag.dag_id, day))
        wanted = Trigger(dag.dag_id, f"day{day}", DAY + timedelta(days=day), priority=priority)
        self.control.do(lambda c: triggers.trigger(c, wanted, actor="ada"))
        (id_,) = self.control.sql(
            "SELECT id FROM dag_run WHERE dag_id = :d AND run_id = :r", d=dag.dag_id, r=f"day{day}"
        )
        self.model.runs[id_] = Run(id_, dag, day, priority)

    # Schedulers.

    @rule()
    def start(self) -> None:
        started = self.model.start()
        assert self.control.start() == len(started)
        for run in started:
            self._learn_instances(run)

    def _learn_instances(self, run: Run) -> None:
        mapped = [task.name for task in run.dag.tasks.values() if task.is_mapped]
        self.control.sql(_MAP, run=run.id, tasks=mapped)
        found = self.control.sql("SELECT task_id, map_index, id FROM task_instance WHERE dag_run_id = :run", run=run.id)
        ids = {(task, map_index): id_ for task, map_index, id_ in found}
        for one in run.instances:
            one.id = ids[one.task, one.map_index]

    @rule(limit=st.sampled_from([1, 2, BATCH, BATCH]))
    def decide(self, limit: int) -> None:
        is_late = any(run.is_out_of_time for run in self.model.runs.values() if run.state == "running")
        self.model.decide()
        while True:
            done = self.control.decide(BATCH if is_late else limit)
            if not (done.runs or done.moved or done.finished):
                break

    @rule(
        place=places, limit=st.sampled_from([1, 2, BATCH, BATCH, BATCH]), seed=st.floats(-1, 1), is_lost=st.booleans()
    )
    def queue(self, place: int, limit: int = BATCH, seed: float = 0, *, is_lost: bool = False) -> None:
        scheduler = at(list(self.model.schedulers), place)
        if self.model.schedulers[scheduler].state == "dead":
            return
        expected = [one.id for one in self.model.queue(limit)]
        self._choose_at_random(seed)
        messages = self.control.queue(limit, scheduler, self.model.parallelism).messages
        ids = [message.task_instance_id for message in messages]
        if self.model.schedulers[scheduler].state == "silent":
            assert ids == []
        elif self._chooses_alone():
            assert ids == expected
        self.model.note_queued(scheduler, {message.task_instance_id: message.attempt_id for message in messages})
        assert (
            self.model.exceeded(
                {
                    pool
                    for run, one in self.model.instances("queued")
                    if one.id in ids
                    for pool in run.dag.tasks[one.task].pools
                }
            )
            == []
        )
        self.sent += messages
        if not is_lost:
            self.broker.publish(messages)

    def _choose_at_random(self, seed: float) -> None:
        """Several schedulers share the pools by chance: make it the same chance each time."""
        self.chance.seed = seed

    def _chooses_alone(self) -> bool:
        alive = [process for process in self.model.schedulers.values() if process.state == "alive"]
        return len(alive) == 1 or self.model.parallelism is not None

    @rule(place=places)
    def run_once(self, place: int) -> None:
        self.start()
        self.decide(BATCH)
        self.queue(place)

    @rule(place=places)
    def reap(self, place: int) -> None:
        alive = [id_ for id_, process in self.model.schedulers.items() if process.state == "alive"]
        if not alive:
            return
        self.model.reap(self.broker.of_pools())
        lease = cast("Lease", SteadyLease(at(alive, place)))
        Reaper(self.control.engine, self.broker, lease, self.settings).run_once()

    def new_scheduler(self) -> None:
        self.model.schedulers[self.control.do(rows.insert_scheduler)] = Process()

    # Workers.

    @rule(slots=st.integers(1, 4))
    def new_worker(self, slots: int) -> None:
        self.model.workers[self.control.worker(slots)] = Process(slots)

    @rule(place=places)
    def lose_a_process(self, place: int) -> None:
        """Kill a scheduler or a worker; another one takes its place."""
        lost = at([*self.model.schedulers, *self.model.workers], place)
        if lost in self.model.schedulers:
            self._silence(lost, self.model.schedulers[lost])
            self.new_scheduler()
        else:
            self._silence(lost, self.model.workers[lost])
            self.new_worker(3)

    def _silence(self, id_: int, process: Process) -> None:
        if process.state == "alive":
            self.control.kill(id_)
            process.state = "silent"

    @precondition(lambda self: self.broker.messages)
    @rule(place=places, count=st.integers(1, 4))
    def receive(self, place: int, count: int) -> None:
        """Let a worker claim what the broker delivers."""
        messages = self.broker.messages[:count]
        del self.broker.messages[:count]
        self._claim(messages, at(list(self.model.workers), place))

    @precondition(lambda self: self.sent)
    @rule(place=places, worker=places)
    def receive_again(self, place: int, worker: int) -> None:
        """Let a worker receive a message that it may have had before, or that is stale."""
        self._claim([at(self.sent, place)], at(list(self.model.workers), worker))

    def _claim(self, messages: Sequence[AttemptMessage], worker: int) -> None:
        expected = [m.attempt_id for m in messages if self.model.claim(m.task_instance_id, m.attempt_id, worker)]
        claimed = self.control.claim(messages, worker)
        assert sorted(one.attempt_id for one in claimed) == sorted(expected)
        assert not {one.attempt_id for one in claimed} & {one.attempt_id for one in self.held}
        self.held += claimed

    @precondition(lambda self: self.broker.messages)
    @rule(place=places)
    def give_back(self, place: int) -> None:
        message = at(self.broker.messages, place)
        self.broker.messages.remove(message)
        is_given = self.model.give_back(message.task_instance_id, message.attempt_id)
        key = AttemptKey(message.task_instance_id, message.attempt_id)
        given = self.control.do(lambda c: attempts.give_back_queued(c, [key], Cause.WORKER_STOPPED))
        assert len(given) == is_given

    @precondition(lambda self: self.held)
    @rule(place=places, ending=ending_names)
    def finish(self, place: int, ending: str) -> None:
        """Let any attempt end that there ever was: most ends come too late, or for the second time."""
        self._finish(at(self.held, place), ending)

    @precondition(lambda self: self.model.instances("running"))
    @rule(place=places, ending=ending_names)
    def finish_running(self, place: int, ending: str) -> None:
        running = {one.attempt for _, one in self.model.instances("running")}
        self._finish(at([one for one in self.held if one.attempt_id in running], place), ending)

    @rule(place=places, endings=st.lists(ending_names, min_size=1, max_size=5))
    def go_on(self, place: int, endings: list[str]) -> None:
        """Let attempt after attempt be queued, claimed, and come to its end: so runs get somewhere."""
        for ending in endings:
            self.run_once(place)
            alive = [id_ for id_, process in self.model.workers.items() if process.state == "alive"]
            if self.broker.messages and alive:
                self._claim([self.broker.messages.pop(0)], at(alive, place))
            if self.model.instances("running"):
                self.finish_running(place, ending)

    @precondition(lambda self: self.model.instances("running"))
    @rule(place=places, ending=ending_names)
    def lose_and_end(self, place: int, ending: str) -> None:
        """Let an attempt be lost, then tell of it once more while the next one runs, and let that one come to its end.

        The loss uses up no try of the author's, and what is told late is refused.
        """
        running = {one.attempt for _, one in self.model.instances("running")}
        lost = at([one for one in self.held if one.attempt_id in running], place)
        self._finish(lost, "lost")
        self._try_again(lost.task_instance_id, place)
        self._finish(lost, "success")
        if self.held[-1].task_instance_id == lost.task_instance_id:
            self._finish(self.held[-1], ending)

    @rule(place=places)
    def receive_stale(self, place: int) -> None:
        """Let a message arrive whose attempt was given back, while the next attempt waits for its own."""
        self.run_once(place)
        if not self.broker.messages:
            return
        message = at(self.broker.messages, place)
        self.give_back(place)
        self.run_once(place)
        self._claim([message], at(list(self.model.workers), place))

    def _try_again(self, task_instance: int, place: int) -> None:
        """Queue what waits, and let a worker claim what it may of one task instance."""
        self.run_once(place)
        alive = [id_ for id_, process in self.model.workers.items() if process.state == "alive"]
        messages = [message for message in self.broker.messages if message.task_instance_id == task_instance]
        if messages and alive:
            self.broker.messages = [message for message in self.broker.messages if message not in messages]
            self._claim(messages, at(alive, place))

    @rule(place=places)
    def fill(self, place: int) -> None:
        """Let workers claim all that may be queued."""
        self.run_once(place)
        alive = [id_ for id_, process in self.model.workers.items() if process.state == "alive"]
        if alive:
            messages, self.broker.messages = self.broker.messages, []
            self._claim(messages, at(alive, place))

    @rule(endings=st.lists(ending_names, min_size=1, max_size=5))
    def work_off(self, endings: list[str]) -> None:
        """Let some of what runs come to its end, the oldest first."""
        running = {one.attempt for _, one in self.model.instances("running")}
        for attempt, ending in zip([one for one in self.held if one.attempt_id in running], endings, strict=False):
            self._finish(attempt, ending)

    def _finish(self, attempt: ClaimedAttempt, ending: str) -> None:
        task = self.model.dags[attempt.dag_id].tasks[attempt.task_id]
        spec = {"retry_delay_s": 0 if task.retries_at_once else 3600, "retry_exponential_backoff": 0}
        verdict = judge(attempt, spec, ENDINGS[ending], self.model.max_infra_retries)
        is_accepted = self.model.finish(attempt.task_instance_id, attempt.attempt_id, ending)
        assert len(self.control.do(lambda c: attempts.finish_if_running(c, [verdict]))) == is_accepted

    @precondition(lambda self: self.broker.messages)
    @rule()
    def empty_the_broker(self) -> None:
        self.broker.close()

    # Time.

    @rule()
    def pass_time(self) -> None:
        """Let an hour pass: for retries, and for messages."""
        self.model.pass_time()
        self.control.sql("UPDATE task_instance SET next_try_at = now() WHERE state = 'up_for_retry'")
        self.control.sql(_AGE_MESSAGES)

    @precondition(lambda self: any(run.state == "running" and run.dag.has_timeout for run in self.model.runs.values()))
    @rule(place=places)
    def run_out_of_time(self, place: int) -> None:
        run = at([run for run in self.model.runs.values() if run.state == "running" and run.dag.has_timeout], place)
        run.is_out_of_time = True
        self.control.sql("UPDATE dag_run SET timeout_at = now() - interval '1 s' WHERE id = :id", id=run.id)

    # People.

    @rule(place=places)
    def pause_or_unpause(self, place: int) -> None:
        self.pause(at(list(self.model.dags.values()), place))

    def pause(self, dag: Dag) -> None:
        dag.is_paused = not dag.is_paused
        self.control.do(lambda c: pausing.set_paused(c, dag.dag_id, paused=dag.is_paused, actor="ada"))

    @rule(name=st.sampled_from(POOLS), slots=st.integers(0, 4))
    def resize(self, name: str, slots: int) -> None:
        self.model.pools[name] = slots
        given: dict[str, Any] = {"description": None, "include_deferred": None, "actor": "ada"}
        self.control.do(lambda c: pools.set_pool(c, name, slots, **given))

    @precondition(lambda self: self.model.runs)
    @rule(place=places, data=st.data(), only_failed=st.booleans())
    def clear(self, place: int, data: st.DataObject, only_failed: bool) -> None:
        runs, names, selection = self._select(place, data, only_failed=only_failed)
        person.clear(runs, names, only_failed=only_failed)
        self.control.do(lambda c: clear.clear(c, selection, actor="ada"))

    def clear_tasks(self, run: Run, names: set[str]) -> None:
        person.clear([run], names, only_failed=False)
        selection = TaskSelection(RunSelection(run.dag.dag_id, f"day{run.date}"), tuple(sorted(names)))
        self.control.do(lambda c: clear.clear(c, selection, actor="ada"))

    @precondition(lambda self: self.model.runs)
    @rule(place=places, data=st.data(), state=st.sampled_from(["success", "failed", "skipped"]))
    def mark(self, place: int, data: st.DataObject, state: str) -> None:
        runs, names, selection = self._select(place, data)
        person.mark(runs, names, state)
        self.control.do(lambda c: mark.mark_tasks(c, selection, TaskState(state), actor="ada"))

    @precondition(lambda self: self.model.runs)
    @rule(place=places, data=st.data())
    def cancel_tasks(self, place: int, data: st.DataObject) -> None:
        runs, names, selection = self._select(place, data)
        person.cancel_tasks(runs, names)
        self.control.do(lambda c: cancel.cancel_tasks(c, selection, actor="ada"))

    def _select(
        self, place: int, data: st.DataObject, *, only_failed: bool = False
    ) -> tuple[list[Run], set[str], TaskSelection]:
        run = at(list(self.model.runs.values()), place)
        named = data.draw(st.sets(st.sampled_from(sorted(run.dag.tasks)), min_size=1, max_size=2), label="tasks")
        past, future, upstream, downstream = data.draw(st.tuples(*[st.integers(0, 3).map(lambda n: n == 3)] * 4))
        selection = TaskSelection(
            RunSelection(run.dag.dag_id, f"day{run.date}", past=past, future=future),
            tuple(sorted(named)),
            upstream=upstream,
            downstream=downstream,
            only_failed=only_failed,
        )
        names = person.reached(run, named, upstream=upstream, downstream=downstream)
        return person.chosen(self.model, run, past=past, future=future), names, selection

    @precondition(lambda self: any(not run.is_finished for run in self.model.runs.values()))
    @rule(place=places)
    def cancel_run(self, place: int) -> None:
        run = at([run for run in self.model.runs.values() if not run.is_finished], place)
        person.end_run(run, "failed")
        self._of_run(run, cancel.cancel_runs)

    @precondition(lambda self: self.model.runs)
    @rule(place=places, state=st.sampled_from(["success", "failed"]))
    def mark_run(self, place: int, state: str) -> None:
        run = at(list(self.model.runs.values()), place)
        person.end_run(run, state)
        self._of_run(run, partial(mark.mark_runs, state=RunState(state)))

    @precondition(lambda self: self.model.runs)
    @rule(place=places)
    def delete_run(self, place: int) -> None:
        run = at(list(self.model.runs.values()), place)
        del self.model.runs[run.id]
        self._of_run(run, partial(delete.delete_runs, force=True))
        self.taken_dates.remove((run.dag.dag_id, run.date))

    def _of_run(self, run: Run, change: Callable[..., object]) -> None:
        selection = RunSelection(run.dag.dag_id, f"day{run.date}")
        self.control.do(lambda c: change(c, selection, actor="ada"))

    # What must hold.

    @invariant()
    def the_database_holds_what_the_model_says(self) -> None:
        found = {id_: tuple(rest) for id_, *rest in self.control.sql(_INSTANCES)}
        expected = {
            one.id: (
                run.id,
                one.task,
                one.map_index,
                one.state,
                one.tries,
                one.infra_failures,
                one.max_tries,
                one.attempt,
            )
            for run in self.model.runs.values()
            for one in run.instances
        }
        assert differences(found, expected) == {}
        runs = {id_: (run.state, run.has_started) for id_, run in self.model.runs.items()}
        states = self.control.sql("SELECT id, state, started_at IS NOT NULL FROM dag_run")
        assert differences({id_: tuple(rest) for id_, *rest in states}, runs) == {}

    def teardown(self) -> None:
        """Take every obstacle away: then all comes to its end, but for what waits for a past that did not go well."""
        if sys.exception() is not None:
            return
        for dag in self.model.dags.values():
            if dag.is_paused:
                self.pause(dag)
        for name in self.model.pools:
            self.resize(name, 9)
        while self._settle():
            self.the_database_holds_what_the_model_says()
        for run in self.model.runs.values():
            assert run.is_finished or self.model.waits_for_past(run) or self.model.has_no_room(run)

    def _settle(self) -> bool:
        before = self.model.snapshot()
        self.pass_time()
        self.reap(0)
        for place in range(len(self.model.schedulers)):
            self.run_once(place)
        self.new_worker(4)
        self._claim(self.broker.messages, max(self.model.workers))
        self.broker.close()
        while self.model.instances("running"):
            self.finish_running(0, "success")
        return before != self.model.snapshot()


def at(found: list[T], place: int) -> T:
    return found[place % len(found)]


def differences(found: dict[int, Any], expected: dict[int, Any]) -> dict[int, Any]:
    """What is in the database, and what was expected there, where these are not the same."""
    ids = found.keys() | expected.keys()
    return {id_: (found.get(id_), expected.get(id_)) for id_ in ids if found.get(id_) != expected.get(id_)}


_INSTANCES = """
    SELECT id, dag_run_id, task_id, map_index, state, try_number, infra_failures, max_tries, attempt_id
    FROM task_instance
"""

#: As an expansion would: a mapped task has one more instance.
_MAP = """
    INSERT INTO task_instance (dag_run_id, dag_id, task_id, map_index, max_tries, pool, pool_slots, extra_pools, queue,
                               run_priority, priority_weight, run_date, max_active_tis_per_dag,
                               max_active_tis_per_dagrun)
    SELECT dag_run_id, dag_id, task_id, 0, max_tries, pool, pool_slots, extra_pools, queue, run_priority,
           priority_weight, run_date, max_active_tis_per_dag, max_active_tis_per_dagrun
    FROM task_instance WHERE dag_run_id = :run AND task_id = ANY(:tasks) AND map_index = -1
    ON CONFLICT DO NOTHING
"""

#: In the order of their ids, so that it is certain which ones are the oldest.
_AGE_MESSAGES = """
    UPDATE task_instance SET queued_at = now() - interval '1 hour' + id * interval '1 ms' WHERE state = 'queued'
"""
