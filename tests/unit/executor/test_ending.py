"""How an attempt ended, told from a child's report or from the way the child itself ended."""

import signal

import pytest

from turnout.executor.assignment import ChildReport
from turnout.executor.ending import of_child_end, of_report
from turnout.executor.pool import ChildEnd
from turnout.metadata.states import Cause


def test_a_child_killed_by_sigkill_was_probably_out_of_memory() -> None:
    ending = of_child_end(ChildEnd(-signal.SIGKILL), None)
    assert (ending.kind, ending.cause) == ("lost", Cause.CHILD_KILLED)
    assert ending.error == "Killed by signal 9 (SIGKILL): probably out of memory."


def test_a_child_killed_by_another_signal_is_named_by_it() -> None:
    assert of_child_end(ChildEnd(-signal.SIGSEGV), None).error == "Killed by signal 11 (SIGSEGV)."


def test_a_signal_without_a_name_is_told_by_its_number() -> None:
    assert of_child_end(ChildEnd(-60), None).error == "Killed by signal 60."


@pytest.mark.parametrize("code", [0, 3])
def test_a_child_that_exits_by_itself_has_failed_and_may_be_retried(code: int) -> None:
    ending = of_child_end(ChildEnd(code), None)
    assert (ending.kind, ending.cause, ending.retry) == ("failed", Cause.CHILD_EXITED, True)
    assert f"exit code {code}" in str(ending.error)


def test_a_child_killed_after_its_time_has_timed_out() -> None:
    ending = of_child_end(ChildEnd(-signal.SIGKILL), Cause.TIMEOUT)
    assert (ending.kind, ending.cause) == ("failed", Cause.TIMEOUT)


def test_a_child_killed_while_importing_is_lost() -> None:
    assert of_child_end(ChildEnd(-signal.SIGKILL), Cause.IMPORT_TIMEOUT).kind == "lost"


def test_an_attempt_stopped_with_its_worker_is_lost_whatever_its_child_says() -> None:
    ending = of_report(ChildReport("failed", error="SystemExit", was_stopped=True), Cause.WORKER_STOPPED)
    assert (ending.kind, ending.cause) == ("lost", Cause.WORKER_STOPPED)


def test_an_attempt_that_succeeds_although_it_was_stopped_has_succeeded() -> None:
    report = ChildReport("success", return_value="1", was_stopped=True)
    assert of_report(report, Cause.WORKER_STOPPED).kind == "success"


def test_sigterm_from_a_stranger_is_an_infra_failure() -> None:
    ending = of_report(ChildReport("failed", error="exit", was_stopped=True), None)
    assert (ending.kind, ending.error) == ("lost", "Killed by signal 15 (SIGTERM).")


def test_a_task_that_times_out_by_itself_has_failed_for_that_cause() -> None:
    ending = of_report(ChildReport("failed", error="Timed out.", cause="timeout"), None)
    assert (ending.kind, ending.cause) == ("failed", Cause.TIMEOUT)


def test_an_import_that_takes_too_long_is_no_fault_of_the_task() -> None:
    assert of_report(ChildReport("failed", cause="import_timeout"), None).kind == "lost"


def test_a_cause_that_only_the_task_knows_is_an_error() -> None:
    assert of_report(ChildReport("failed", cause="exit", error="sys.exit"), None).cause is Cause.ERROR


def test_a_main_process_that_did_not_answer_is_no_fault_of_the_task() -> None:
    ending = of_report(ChildReport("failed", cause="no_answer", error="no answer"), None)
    assert (ending.kind, ending.cause, ending.error) == ("lost", Cause.WORKER_LOST, "no answer")
