"""The law of states, by itself."""

from turnout.metadata.states import (
    ACTIVE,
    FINISHED,
    LAW,
    RUN_FINISHED,
    RUN_LAW,
    UNFINISHED,
    Law,
    RunState,
    TaskState,
    mermaid,
)


def test_every_state_is_mentioned_by_the_law() -> None:
    assert {row.before for row in LAW} | {row.after for row in LAW} == set(TaskState)
    assert {row.before for row in RUN_LAW} | {row.after for row in RUN_LAW} == set(RunState)


def test_an_event_leads_from_a_state_to_one_other_only() -> None:
    for law in (LAW, RUN_LAW):
        pairs = [(row.before, row.event) for row in law]
        assert len(pairs) == len(set(pairs))


def test_only_a_person_takes_something_out_of_an_end() -> None:
    assert {row.actors for row in LAW if row.before in FINISHED} == {("person",)}
    assert {row.actors for row in RUN_LAW if row.before in RUN_FINISHED} == {("person",)}


def test_only_a_worker_starts_an_attempt_and_only_a_scheduler_queues_one() -> None:
    assert [(row.before, row.actors) for row in LAW if row.after is TaskState.RUNNING] == [
        (TaskState.QUEUED, ("worker",))
    ]
    assert [(row.before, row.actors) for row in LAW if row.after is TaskState.QUEUED] == [
        (TaskState.SCHEDULED, ("scheduler",))
    ]


def test_a_task_instance_is_finished_or_not() -> None:
    assert set(TaskState) == FINISHED | UNFINISHED
    assert ACTIVE < UNFINISHED


def test_a_diagram_has_one_arrow_for_each_pair_of_states() -> None:
    law = (
        Law(TaskState.NONE, "skip", TaskState.SKIPPED, ("scheduler",)),
        Law(TaskState.NONE, "mark", TaskState.SKIPPED, ("person", "worker")),
        Law(TaskState.SKIPPED, "clear", TaskState.NONE, ("person",)),
    )
    assert mermaid(law).splitlines() == [
        "stateDiagram-v2",
        "    [*] --> none",
        "    none --> skipped: skip (scheduler); mark (person, worker)",
        "    skipped --> none: clear (person)",
    ]
