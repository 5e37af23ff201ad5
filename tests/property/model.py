"""The law of scheduling as a plain model: it keeps no news, and looks at everything each time.

It is written from what the documentation promises, not from the code: nothing of the product is used here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.property.graph import FAILURES, FINISHED, Dag

ACTIVE = ("queued", "running")
GOOD_PAST = ("success", "skipped", "removed")


@dataclass
class Instance:
    """A task instance."""

    task: str
    map_index: int
    max_tries: int
    id: int = 0
    state: str = "none"
    tries: int = 0
    infra_failures: int = 0
    attempt: Any = None
    scheduler: int | None = None
    worker: int | None = None
    is_due: bool = False  # of a retry
    is_late: bool = False  # of a message

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED

    def clear(self, retries: int) -> None:
        self.state, self.attempt, self.infra_failures = "none", None, 0
        self.max_tries = self.tries + retries


@dataclass
class Run:
    """A run."""

    id: int
    dag: Dag
    date: Any
    priority: int = 0
    state: str = "queued"
    has_started: bool = False
    is_out_of_time: bool = False
    instances: list[Instance] = field(default_factory=list)

    @property
    def is_finished(self) -> bool:
        return self.state in ("success", "failed")

    @property
    def states(self) -> dict[str, list[str]]:
        """The states of the instances of each task."""
        return {name: [one.state for one in self.instances if one.task == name] for name in self.dag.tasks}

    @property
    def active(self) -> list[Instance]:
        return [one for one in self.instances if one.state in ACTIVE]

    def restart(self) -> None:
        self.state, self.has_started, self.is_out_of_time = "queued", False, False


@dataclass
class Process:
    """A scheduler or a worker."""

    slots: int = 0
    state: str = "alive"  # then `silent`, when its lease is over, then `dead`, when that was noticed


@dataclass
class Model:
    """What the database must hold."""

    max_infra_retries: int
    parallelism: int | None = None
    pools: dict[str, int] = field(default_factory=dict)
    dags: dict[str, Dag] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    schedulers: dict[int, Process] = field(default_factory=dict)
    workers: dict[int, Process] = field(default_factory=dict)

    def instances(self, *states: str) -> list[tuple[Run, Instance]]:
        """All task instances in some states, by id."""
        found = ((run, one) for run in self.runs.values() for one in run.instances if one.state in states)
        return sorted(found, key=lambda pair: pair[1].id)

    def find(self, id_: int, attempt: Any, state: str) -> tuple[Run, Instance] | None:
        """The task instance whose current attempt is this one, in this state."""
        return next((pair for pair in self.instances(state) if (pair[1].id, pair[1].attempt) == (id_, attempt)), None)

    # The steps of a scheduler.

    def start(self) -> list[Run]:
        """Start runs within `max_active_runs`: those of higher priority first, then in the order of their creation."""
        started = []
        for run in sorted(self.runs.values(), key=lambda run: (-run.priority, run.id)):
            running = [other for other in self.runs.values() if other.dag is run.dag and other.state == "running"]
            if run.state == "queued" and not run.dag.is_paused and len(running) < run.dag.max_active_runs:
                run.state, run.has_started = "running", True
                run.instances = run.instances or list(_instances(run.dag))
                started.append(run)
        return started

    def decide(self) -> None:
        """Draw every conclusion there is."""
        for _, one in self.instances("up_for_retry"):
            if one.is_due:
                one.state = "scheduled"
        for run in self.runs.values():
            if run.state == "running" and run.is_out_of_time:
                _skip(one for one in run.instances if not one.is_finished)
                run.state = "failed"
        while any([self._decide_for(run) for run in self.runs.values() if run.state == "running"]):  # noqa: C419
            pass

    def _decide_for(self, run: Run) -> bool:
        before = [one.state for one in run.instances]
        fails = run.dag.fail_fast and any(_fails_run(run.dag, one) for one in run.instances)
        self._follow_rules(run, only_teardowns=fails)
        if fails:
            for one in run.instances:
                if not one.is_finished and not run.dag.tasks[one.task].is_teardown:
                    one.state = "failed" if one.state == "running" else "skipped"
            self._follow_rules(run, only_teardowns=True)
        if all(one.is_finished for one in run.instances):
            leaves = [one.state for one in run.instances if run.dag.decides_run(one.task)]
            run.state = "failed" if set(leaves) & set(FAILURES) else "success"
        return before != [one.state for one in run.instances]

    def _follow_rules(self, run: Run, *, only_teardowns: bool) -> None:
        """Decide task after task until nothing follows any more; only teardowns still run when the run has failed."""
        has_moved = True
        while has_moved:
            has_moved = False
            for name, task in run.dag.tasks.items():
                verdict = run.dag.verdict(name, run.states)
                if verdict == "scheduled":
                    if not self._past_allows(run, name) or (only_teardowns and not task.is_teardown):
                        continue
                    verdict = "success" if task.is_empty else "scheduled"
                for one in run.instances:
                    if verdict and one.task == name and one.state == "none":
                        one.state, has_moved = verdict, True

    def _past_allows(self, run: Run, name: str) -> bool:
        task = run.dag.tasks[name]
        if not (task.depends_on_past or task.waits_for_downstream):
            return True
        earlier = [other for other in self.runs.values() if other.dag is run.dag and other.date < run.date]
        if not earlier:
            return True
        before = max(earlier, key=lambda other: other.date)
        if not before.instances:
            return before.state == "success"  # by a person
        needed = {name} | (run.dag.downstream(name) if task.waits_for_downstream else set())
        return all(one.state in GOOD_PAST for one in before.instances if one.task in needed)

    def queue(self, limit: int) -> list[Instance]:
        """Choose what is queued next: in order of priority, and nothing that a limit stops.

        The first that finds too few slots in a pool keeps those that it needs, so that nobody overtakes it there. One
        that a full pool, or anything else, stops keeps nothing.
        """
        free = {pool: slots - self.used(pool) for pool, slots in self.pools.items()}
        kept: set[str] = set()
        chosen: list[Instance] = []
        for run, one in self._line():
            needs = run.dag.tasks[one.task].pools
            if len(chosen) == limit or self._room() <= len(chosen):
                break
            if self._is_stopped(run, one, chosen) or kept & needs.keys() or free[next(iter(needs))] <= 0:
                continue
            if any(slots > self.pools[pool] for pool, slots in needs.items()):
                continue
            for pool, slots in needs.items():
                free[pool] -= slots
            lacking = {pool for pool in needs if free[pool] < 0}
            kept |= lacking
            if not lacking:
                chosen.append(one)
        return chosen

    def _line(self) -> list[tuple[Run, Instance]]:
        waiting = [(run, one) for run, one in self.instances("scheduled") if not run.dag.is_paused]
        return sorted(
            waiting, key=lambda pair: (-pair[0].priority, -pair[0].dag.weight(pair[1].task), pair[0].date, pair[1].id)
        )

    def _room(self) -> int:
        """How many more attempts workers could start soon, and `parallelism` allows."""
        room = -len(self.instances("queued"))
        for id_, worker in self.workers.items():
            busy = [one for _, one in self.instances("running") if one.worker == id_]
            room += max(0, worker.slots - len(busy)) if worker.state == "alive" else 0
        if self.parallelism is not None:
            room = min(room, self.parallelism - len(self.instances(*ACTIVE)))
        return room

    def _is_stopped(self, run: Run, one: Instance, chosen: Sequence[Instance]) -> bool:
        """Whether a limit of its run or of its task stops one more."""
        task = run.dag.tasks[one.task]
        of_run = run.active + [other for other in chosen if other in run.instances]
        in_run = [other for other in of_run if other.task == one.task]
        in_dag = [other for other in self._active_of(run.dag, chosen) if other.task == one.task]
        return (
            len(of_run) >= run.dag.max_active_tasks
            or (task.most_per_run is not None and len(in_run) >= task.most_per_run)
            or (task.most_per_dag is not None and len(in_dag) >= task.most_per_dag)
        )

    def _active_of(self, dag: Dag, chosen: Sequence[Instance] = ()) -> list[Instance]:
        runs = [run for run in self.runs.values() if run.dag is dag]
        return [one for run in runs for one in run.instances if one.state in ACTIVE or one in chosen]

    def used(self, pool: str) -> int:
        """How many slots of a pool are in use."""
        return sum(run.dag.tasks[one.task].pools.get(pool, 0) for run, one in self.instances(*ACTIVE))

    def note_queued(self, scheduler: int, attempts: Mapping[int, Any]) -> None:
        """Take in that task instances were queued, with their new attempts."""
        for run, one in self.instances("scheduled"):
            if one.id in attempts:
                assert not run.dag.is_paused
                one.state, one.attempt, one.scheduler, one.is_late = "queued", attempts[one.id], scheduler, False

    def exceeded(self, pools: Iterable[str]) -> list[str]:
        """Name the limits that are exceeded, of some pools and of all runs and tasks."""
        found = [f"pool {pool}" for pool in pools if self.used(pool) > self.pools[pool]]
        for run in self.runs.values():
            found += [f"max_active_tasks of {run.id}"] if len(run.active) > run.dag.max_active_tasks else []
            for name, task in run.dag.tasks.items():
                in_run = len([one for one in run.active if one.task == name])
                in_dag = len([one for one in self._active_of(run.dag) if one.task == name])
                found += [f"{name} in {run.id}"] if in_run > (task.most_per_run or in_run) else []
                found += [f"{name} in all runs"] if in_dag > (task.most_per_dag or in_dag) else []
        if self.parallelism is not None and len(self.instances(*ACTIVE)) > self.parallelism:
            found.append("parallelism")
        return found

    # Workers, and what becomes of their attempts.

    def claim(self, id_: int, attempt: Any, worker: int) -> bool:
        """Let a worker claim the attempt of a message."""
        found = self.find(id_, attempt, "queued")
        if found is None or self.workers[worker].state != "alive":
            return False
        found[1].state, found[1].worker = "running", worker
        found[1].tries += 1
        return True

    def give_back(self, id_: int, attempt: Any) -> bool:
        """Let a worker give back what it has not begun."""
        found = self.find(id_, attempt, "queued")
        if found is None:
            return False
        found[1].state = "scheduled"
        return True

    def finish(self, id_: int, attempt: Any, ending: str) -> bool:
        """Let an attempt end."""
        found = self.find(id_, attempt, "running")
        if found is None:
            return False
        run, one = found
        task = run.dag.tasks[one.task]
        if ending == "lost":
            self._lose(one)
        elif ending == "failed" and one.tries - one.infra_failures <= one.max_tries:
            one.state, one.is_due = "up_for_retry", task.retries_at_once
        else:
            one.state = "failed" if ending == "failed_for_good" else ending
        return True

    def _lose(self, one: Instance) -> None:
        """End an attempt through no fault of its task: the retries of the task are untouched."""
        one.state = "scheduled" if one.infra_failures < self.max_infra_retries else "failed"
        one.infra_failures += 1

    # The reaper, and time.

    def reap(self, depths: Mapping[str, int]) -> None:
        """Repair; `depths` says how many messages the broker holds for each pool."""
        for process in (*self.schedulers.values(), *self.workers.values()):
            process.state = "dead" if process.state == "silent" else process.state
        for _, one in self.instances("running"):
            if self.workers[one.worker or 0].state == "dead":
                self._lose(one)
        for _, one in self.instances("queued"):
            if self.schedulers[one.scheduler or 0].state == "dead":
                one.state = "scheduled"
        for run, one in self.instances("scheduled"):
            needs = run.dag.tasks[one.task].pools
            if any(slots > self.pools[pool] > 0 for pool, slots in needs.items()):
                one.state = "failed"
        self._return_lost_messages(depths)

    def _return_lost_messages(self, depths: Mapping[str, int]) -> None:
        """Return what is late: all of it without a worker; else as many as the broker has messages too few."""
        queued = self.instances("queued")
        is_served = any(worker.state == "alive" for worker in self.workers.values())
        for pool in self.pools:
            of_pool = [one for run, one in queued if run.dag.tasks[one.task].first_pool == pool]
            late = [one for one in of_pool if one.is_late]
            missing = max(0, len(of_pool) - depths.get(pool, 0))
            for one in late[:missing] if is_served else late:
                one.state = "scheduled"

    def pass_time(self) -> None:
        """Let every retry be due, and every message be late."""
        for _, one in self.instances("up_for_retry", "queued"):
            one.is_due = one.is_late = True

    # What is left when all has come to rest.

    def snapshot(self) -> list[Any]:
        """All that may still change."""
        return [(run.state, [(one.state, one.attempt) for one in run.instances]) for run in self.runs.values()]

    def waits_for_past(self, run: Run) -> bool:
        """Whether a run stands still since the run before it did not go well."""
        unfinished = [one for one in run.instances if not one.is_finished]
        stuck = [one for one in unfinished if not self._past_allows(run, one.task)]
        return run.state == "running" and bool(stuck) and all(one.state == "none" for one in unfinished)

    def has_no_room(self, run: Run) -> bool:
        """Whether a run does not start since others stand still."""
        running = [other for other in self.runs.values() if other.dag is run.dag and other.state == "running"]
        return run.state == "queued" and len(running) == run.dag.max_active_runs


def _instances(dag: Dag) -> Iterable[Instance]:
    for task in dag.tasks.values():
        for map_index in (-1, 0) if task.is_mapped else (-1,):
            yield Instance(task.name, map_index, task.retries)


def _fails_run(dag: Dag, one: Instance) -> bool:
    task = dag.tasks[one.task]
    return one.state == "failed" and (not task.is_teardown or task.fails_run)


def _skip(instances: Iterable[Instance]) -> None:
    for one in instances:
        one.state = "skipped"
