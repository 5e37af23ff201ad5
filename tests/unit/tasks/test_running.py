import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from turnout.tasks import DAG, PythonOperator, TaskFailed, TaskSkipped, TaskTimeout, get_current_context
from turnout.tasks.errors import DagError
from turnout.tasks.running import TaskResult
from turnout.tasks.signals import TaskStopped


def operator(function: Callable[..., Any], **arguments: Any) -> PythonOperator:
    return PythonOperator(task_id="work", python_callable=function, dag=DAG("runs"), **arguments)


def raising(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def test_what_a_task_returns_is_its_result(run: Any) -> None:
    assert run(operator(lambda: {"rows": 3})) == TaskResult("success", return_value='{"rows": 3}')


def test_nothing_is_kept_of_a_task_that_returns_none_or_does_not_want_it(run: Any) -> None:
    assert run(operator(lambda: None)) == TaskResult("success")
    assert run(operator(lambda: 3, do_xcom_push=False)) == TaskResult("success")


def test_a_failure_is_told_in_a_line_with_its_place_and_may_be_retried(run: Any) -> None:
    done = run(operator(raising(ValueError("no\n  rows"))))
    assert (done.outcome, done.retry, done.cause) == ("failed", True, None)
    assert done.error.startswith("ValueError: no rows (test_running.py, line ")
    assert done.traceback.startswith("Traceback (most recent call last):")
    assert "turnout/tasks" not in done.traceback.replace("tests/unit/tasks", "")
    assert "raise error\nValueError: no" in done.traceback


def test_a_task_can_skip_or_fail_itself_for_good(run: Any) -> None:
    skipped = run(operator(raising(TaskSkipped("no data today"))))
    assert (skipped.outcome, skipped.retry, skipped.error) == ("skipped", False, "no data today")
    failed = run(operator(raising(TaskFailed("wrong password"))))
    assert (failed.outcome, failed.retry, failed.error) == ("failed", False, "wrong password")
    assert run(operator(raising(TaskFailed()))).error == "TaskFailed"


@pytest.mark.parametrize("status", [None, 0, 3, "bye"])
def test_a_task_that_calls_exit_fails_and_the_process_lives_on(run: Any, status: Any) -> None:
    done = run(operator(lambda: sys.exit(status)))
    assert (done.outcome, done.retry, done.cause) == ("failed", True, "exit")
    assert done.error.startswith(f"The task called sys.exit({status!r})")


def test_an_interrupt_is_caught_and_told_apart(run: Any) -> None:
    assert run(operator(raising(KeyboardInterrupt()))).cause == "interrupted"
    assert run(operator(raising(GeneratorExit()))).outcome == "failed"


@pytest.mark.parametrize("fault", [RuntimeError("no words"), SystemExit(3), KeyboardInterrupt()])
def test_an_error_that_cannot_be_shown_is_still_a_failure(run: Any, fault: BaseException) -> None:
    class BrokenError(Exception):
        def __str__(self) -> str:
            raise fault

        __repr__ = __str__

    done = run(operator(raising(BrokenError())))
    assert done.outcome == "failed"
    assert f"BrokenError: (it cannot be shown: {type(fault).__name__})" in done.error
    done = run(operator(raising(SystemExit(BrokenError()))))
    assert (done.outcome, done.cause) == ("failed", "exit")


def test_endless_recursion_is_a_failure_like_any_other(run: Any) -> None:
    def dive() -> None:
        dive()

    assert run(operator(dive)).error.startswith("RecursionError")


def test_a_task_that_runs_too_long_is_interrupted_and_may_be_retried(run: Any) -> None:
    done = run(operator(threading.Event().wait, execution_timeout=timedelta(milliseconds=50)))
    assert (done.outcome, done.retry, done.cause) == ("failed", True, "timeout")
    assert done.error == "Timed out: it ran longer than its execution_timeout of 0:00:00.050000."


def test_after_a_limit_the_alarm_is_as_it_was_before(run: Any) -> None:
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        run(operator(lambda: 1, execution_timeout=timedelta(seconds=60)))
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert rung == [1]


def test_catching_exceptions_does_not_swallow_the_timeout(run: Any) -> None:
    def stubborn() -> None:
        try:
            threading.Event().wait()
        except Exception:  # noqa: BLE001
            pytest.fail("caught")

    assert run(operator(stubborn, execution_timeout=timedelta(milliseconds=50))).cause == "timeout"
    assert not issubclass(TaskTimeout, Exception)


@pytest.mark.parametrize(
    ("work", "error"),
    [
        (threading.Event().wait, "Timed out: it ran longer than its execution_timeout of 0:00:00.050000."),
        (raising(TaskStopped(143)), "The attempt was stopped."),
    ],
)
def test_what_a_task_started_elsewhere_is_stopped_with_it(run: Any, work: Callable[[], object], error: str) -> None:
    killed = []

    class Remote(PythonOperator):
        def on_kill(self) -> None:
            killed.append(self.task_id)

    timeout = timedelta(milliseconds=50)
    remote = Remote(task_id="remote", python_callable=work, execution_timeout=timeout, dag=DAG("kill"))
    assert run(remote).error == error
    assert killed == ["remote"]


def test_a_task_in_another_thread_runs_without_the_soft_limit(run: Any) -> None:
    done: list[TaskResult] = []
    timed = operator(lambda: 1, execution_timeout=timedelta(seconds=5))
    thread = threading.Thread(target=lambda: done.append(run(timed)))
    thread.start()
    thread.join()
    assert done == [TaskResult("success", return_value="1")]


def test_the_context_can_be_asked_for_anywhere_in_a_running_task_and_nowhere_else(run: Any) -> None:
    assert run(operator(lambda: get_current_context()["ds"])).return_value == '"2013-01-01"'
    with pytest.raises(DagError, match="outside of a running task"):
        get_current_context()


def test_an_attempt_leaves_the_task_as_it_was(run: Any) -> None:
    templated = operator(lambda x: x, op_args=["{{ ds }}"])
    run(templated)
    assert templated.op_args == ["{{ ds }}"]


def test_a_result_over_the_limit_fails_the_task_with_the_remedy(run: Any) -> None:
    done = run(operator(lambda: "x" * 100), max_bytes=100)
    assert done.outcome == "failed"
    assert "The result is 102 bytes as JSON, over the limit of 100 (setting xcom.max_bytes)" in done.error


def test_pushing_values_by_key_is_refused_until_it_is_supported(run: Any) -> None:
    done = run(operator(lambda ti: ti.xcom_push("rows", 3)))
    assert done.error.startswith("xcom_push(key='rows') is not supported yet: return a dict")
