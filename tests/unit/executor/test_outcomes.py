"""Outcomes on their way to the database."""

from typing import Any, cast
from uuid import uuid4

from turnout.config.masking import Masker
from turnout.executor.outcomes import Outcomes
from turnout.executor.roster import Roster
from turnout.metadata.attempts import AttemptKey, FinishedAttempt
from turnout.metadata.states import Cause, Outcome, TaskState


def test_passwords_of_the_platform_are_masked_in_the_error_of_an_attempt() -> None:
    nothing: Any = None
    outcomes = Outcomes(nothing, Roster(), masker=Masker(["hunter2"]), on_finished=cast("Any", list))
    error = "cannot reach postgresql://ada:hunter2@db"
    outcomes.put(nothing, FinishedAttempt(AttemptKey(1, uuid4()), TaskState.FAILED, Outcome.FAILED, Cause.ERROR, error))
    [(_, finished)] = outcomes._inbox.take_all(0)
    assert finished.error == "cannot reach postgresql://ada:***@db"
