"""The process that runs callbacks, one at a time: it has no database and no broker, and its folder is its worker's.

It reads assignments from standard input, pickled by its worker, and writes for each to standard output what went wrong:
JSON, since what user code may have written is not to be unpickled by its worker. It ends when there is nothing to read.
"""

import json
import logging
import os
import pickle
import traceback
from dataclasses import replace
from pathlib import Path

from turnout.executor.assignment import Assignment, CallbackAssignment, too_long
from turnout.executor.capture import AttemptLog, captured
from turnout.executor.channel_client import ChannelClient
from turnout.executor.child_state import ChildState
from turnout.executor.dag_files import DagFiles, ImportTimeoutError
from turnout.executor.descendants import end_descendants, take_in_orphans
from turnout.executor.logging_state import kept_logging
from turnout.tasks.callbacks import CallbackTimeoutError, call_back
from turnout.tasks.dags import DAG
from turnout.tasks.errors import DagError, DagFileError
from turnout.tasks.masking import process_masker
from turnout.tasks.timeouts import alarm

#: What went wrong is for people and for one column of a table; the whole traceback is in the log.
_PROBLEM_CHARS = 1000

logger = logging.getLogger("turnout.task")


def main() -> None:
    """Run callbacks until standard input ends."""
    take_in_orphans()
    work, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)  # what nobody has caught goes where the worker's own words go
    files = DagFiles()
    while True:
        try:
            assignment: CallbackAssignment = pickle.load(work)  # noqa: S301  from our own worker
        except EOFError:
            return
        answers.write(json.dumps({"problem": run_callback(assignment, files)}).encode() + b"\n")
        answers.flush()


def run_callback(given: CallbackAssignment, files: DagFiles) -> str | None:
    """Run one callback; return what went wrong, in a line, or None."""
    assignment = given.assignment
    log = AttemptLog(Path(assignment.log_file), assignment.log_max_bytes, process_masker)
    state = ChildState()
    try:
        with captured(log), ChannelClient(assignment) as channel:
            try:
                with kept_logging():
                    problem = _call(given, files, channel, state)
            finally:
                state.end_copy()
                state.restore()
        end_descendants()
    finally:
        log.close()
    return None if problem is None else process_masker.mask(problem)[:_PROBLEM_CHARS]


def _call(given: CallbackAssignment, files: DagFiles, channel: ChannelClient, state: ChildState) -> str | None:
    assignment = given.assignment
    facts = assignment.facts
    try:
        dag = _find_dag(assignment, files)
        owner = dag.get_task(facts.task_id) if facts.task_id else dag
        if assignment.fetch_conf:
            facts = replace(facts, conf=channel.fetch_conf())
    except (DagFileError, DagError) as error:
        return str(error)
    except ImportTimeoutError:
        return f"Importing {assignment.dag_file} took longer than {assignment.import_timeout_s:g} s on the worker."
    try:
        with alarm(given.timeout_s, CallbackTimeoutError()):
            return call_back(owner, facts, given.call, channel, state.end_copy)
    except CallbackTimeoutError:
        logger.error("%s", traceback.format_exc())  # noqa: TRY400  shows where it hung
        return too_long(given.timeout_s)


def _find_dag(assignment: Assignment, files: DagFiles) -> DAG:
    path = Path(assignment.dag_file)
    dags = files.load(path, Path(assignment.dags_folder), assignment.import_timeout_s, lambda _event: None)
    for dag in dags:
        if dag.dag_id == assignment.facts.dag_id:
            return dag
    raise DagFileError(f"DAG {assignment.facts.dag_id} is not declared by {path} on this worker any more.")


if __name__ == "__main__":
    main()
