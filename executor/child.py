"""The child: runs the user code of one attempt at a time, in a process that knows nothing but its assignment."""

import logging
import os
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

from turnout.executor.assignment import INLINE_BYTES, PIPES_CLOSED, PIPES_CLOSED_EXIT, Assignment, ChildReport
from turnout.executor.capture import AttemptLog, captured
from turnout.executor.channel_client import ChannelClient
from turnout.executor.child_state import ChildState
from turnout.executor.dag_files import DagFiles, ImportTimeoutError
from turnout.executor.descendants import end_descendants
from turnout.executor.logging_state import kept_logging
from turnout.executor.own_pipes import own_pipes
from turnout.executor.usage import forget_peak_memory
from turnout.tasks.errors import DagFileError
from turnout.tasks.masking import process_masker
from turnout.tasks.operator import BaseOperator
from turnout.tasks.running import TaskResult, run_task
from turnout.tasks.signals import TaskStopped

#: Errors are for people and for one column of a table; the whole traceback is in the log.
_ERROR_CHARS = 1000

logger = logging.getLogger("turnout.task")
_files = DagFiles()


class ChildSpoiltError(SystemExit):
    """This process cannot be put in order after an attempt. Raised out of the attempt, it ends the process.

    Args:
        report: how the attempt ended, if that is known.
        reason: what is out of order.
    """

    def __init__(self, report: ChildReport | None, reason: str) -> None:
        super().__init__(report, reason)
        self.report = report
        self.reason = reason


def run_attempt(assignment: Assignment) -> ChildReport:
    """Run one attempt and report how it ended. Whatever the task does, and whatever the log's disk does, it reports.

    Raises:
        ChildSpoiltError: this process can run no other attempt.
    """
    pipes = own_pipes()
    log = AttemptLog(Path(assignment.log_file), assignment.log_max_bytes, process_masker)
    stopped: list[int] = []
    report: ChildReport | None = None
    try:
        state = ChildState()
        forget_peak_memory()
        with captured(log):
            try:
                with ChannelClient(assignment) as channel, _stoppable(stopped):
                    report = _run(assignment, channel, state)
            except TaskStopped:  # before the task began, or after it had ended
                report = ChildReport("failed", error="The attempt was stopped.")
            finally:
                if report is not None:
                    report = replace(report, was_stopped=bool(stopped))
                state.end_copy()
                if not pipes.are_whole():
                    log.write("stderr", "error", "", PIPES_CLOSED)
                    os._exit(PIPES_CLOSED_EXIT)
                state.restore()
            _end_leftovers(state)
    except Exception as error:
        logger.exception("attempt %s: the child process is replaced", assignment.facts.attempt_id)
        raise ChildSpoiltError(report, f"{type(error).__name__}: {error}") from error
    finally:
        log.close()
    if log.problem is not None:
        logger.warning("attempt %s: %s", assignment.facts.attempt_id, log.problem)
    return report


def _end_leftovers(state: ChildState) -> None:
    if names := end_descendants():
        logger.warning("Ended what the task had left running: %s.", ", ".join(sorted(names)))
    if threads := state.threads_left():
        logger.warning("The task has left threads running, which nobody can end: %s.", ", ".join(threads))


def _run(assignment: Assignment, channel: ChannelClient, state: ChildState) -> ChildReport:
    try:
        task = _find_task(assignment, channel)
        if assignment.fetch_conf:
            assignment = replace(assignment, facts=replace(assignment.facts, conf=channel.fetch_conf()))
    except DagFileError as error:
        logger.error("%s", error)  # noqa: TRY400  the message is made for people, the traceback would be ours
        return ChildReport("failed", error=_for_people(str(error)))
    except ImportTimeoutError:
        error_text = (
            f"Importing {assignment.dag_file} took longer than {assignment.import_timeout_s:g} s on the worker "
            "(setting worker.import_timeout_s)."
        )
        logger.error("%s", error_text)  # noqa: TRY400  the same
        return ChildReport("failed", error=error_text, cause="import_timeout")
    except OSError as error:
        logger.error("%s", traceback.format_exc())  # noqa: TRY400  goes into the log as one entry
        said = f"The worker's main process did not answer: {error}."
        return ChildReport("failed", error=said, cause="no_answer")
    with kept_logging():
        result = run_task(task, assignment.facts, channel, assignment.xcom_max_bytes)
        state.end_copy()
    return _report(result, channel)


def _find_task(assignment: Assignment, channel: ChannelClient) -> BaseOperator:
    facts, path = assignment.facts, Path(assignment.dag_file)
    dags = _files.load(path, Path(assignment.dags_folder), assignment.import_timeout_s, channel.note)
    dag = next((dag for dag in dags if dag.dag_id == facts.dag_id), None)
    if dag is None:
        raise DagFileError(
            f"DAG {facts.dag_id} is not declared by {path} on this worker: bring its DAG files up to date."
        )
    task = next((task for task in dag.tasks if task.task_id == facts.task_id), None)
    if task is None:
        raise DagFileError(f"Task {facts.task_id} is not in DAG {facts.dag_id} in {path} on this worker any more.")
    return task


def _report(result: TaskResult, channel: ChannelClient) -> ChildReport:
    if result.traceback is not None:
        logger.error("%s", result.traceback)
    elif result.error is not None:
        logger.log(logging.INFO if result.outcome == "skipped" else logging.ERROR, "%s", result.error)
    report = ChildReport(
        result.outcome,
        retry=result.retry,
        error=None if result.error is None else _for_people(result.error),
        cause=result.cause,
        return_value=result.return_value,
    )
    if result.return_value is None or len(result.return_value) <= INLINE_BYTES:
        return report
    try:
        channel.send_return_value(result.return_value)
    except OSError as error:
        return ChildReport("failed", error=f"The return value could not be handed to the worker: {error}")
    return replace(report, return_value=None, return_value_sent=True)


def _for_people(error: str) -> str:
    """Mask before cutting: half of a secret would not be known for one."""
    return process_masker.mask(error)[:_ERROR_CHARS]


@contextmanager
def _stoppable(stopped: list[int]) -> Iterator[None]:
    """Raise `TaskStopped` in the attempt when the main process asks for its end by SIGTERM."""

    def stop(number: int, _frame: FrameType | None) -> None:
        stopped.append(number)
        raise TaskStopped(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        with suppress(TaskStopped):
            signal.signal(signal.SIGTERM, before)
