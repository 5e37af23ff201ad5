"""One DAG whose tasks do what the run's conf says, for every test in which something goes wrong.

    conf = {"ledger": "/path", "script": {"one": ["fail", "succeed"], "*": ["succeed"]}}

Each task has a list of actions, one for each attempt; the last is repeated. Every start and every end of an attempt is
appended to the ledger, a file of JSON lines, by the task itself: it is the judge of what has really run.
"""

import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from turnout.tasks import DAG, BashOperator, TaskFailed, TaskSkipped, get_current_context, task

HOUR = 3600
MEGABYTE = 1 << 20


def record(event: str) -> None:
    """Append to the ledger; a line is one write, so that processes may share the file."""
    context = get_current_context()
    ti = context["ti"]
    line = {
        "event": event,
        "attempt_id": ti.attempt_id,
        "dag_id": ti.dag_id,
        "run_id": ti.run_id,
        "task_id": ti.task_id,
        "map_index": ti.map_index,
        "pid": os.getpid(),
        "time": time.time(),
    }
    fd = os.open(context["params"]["ledger"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(fd, (json.dumps(line) + "\n").encode())
    finally:
        os.close(fd)


def next_action() -> str:
    """Choose the action of this attempt by how many the task has started in this run before."""
    context = get_current_context()
    ti, params = context["ti"], context["params"]
    script = params.get("script", {})
    actions = script.get(ti.task_id, script.get("*", ["succeed"]))
    path = Path(params["ledger"])
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    before = sum((line["event"], line["run_id"], line["task_id"]) == ("start", ti.run_id, ti.task_id) for line in lines)
    return str(actions[min(before, len(actions) - 1)])


def perform(action: str) -> Any:
    """Do one thing: a verb, and its argument after a colon."""
    verb, _, argument = action.partition(":")
    match verb:
        case "succeed":
            return argument or None
        case "return_bytes":
            return "x" * int(argument)
        case "skip":
            raise TaskSkipped(argument)
        case "fail":
            raise RuntimeError(argument or "as the script says")
        case "fail_for_good":
            raise TaskFailed(argument)
        case "sys_exit":
            sys.exit(int(argument))
        case "os_exit":
            os._exit(int(argument))
        case "signal":
            os.kill(os.getpid(), signal.Signals[argument])
            time.sleep(HOUR)  # until the signal arrives
        case "hang":
            time.sleep(HOUR)
        case "ignore_sigterm":
            ignore_everything()
        case "wait_for":
            while not Path(argument).exists():
                time.sleep(0.01)
        case "allocate_mb":
            return len(bytearray(int(argument) * MEGABYTE))
        case "print_mb":
            for number in range(int(argument) * MEGABYTE // 100):
                print(f"{number:099}")  # noqa: T201
        case "pull":
            return get_current_context()["ti"].xcom_pull(task_ids=argument)
        case "environ":
            return {name: value for name, value in os.environ.items() if name.startswith("TURNOUT_")}
        case "sockets":
            return [link for link in map(_target, Path("/proc/self/fd").iterdir()) if link.startswith("socket:")]
        case _:
            raise ValueError(f"No such action: {action}")
    return None


def ignore_everything() -> None:
    """Hang, whatever is raised here."""
    while True:
        try:
            time.sleep(HOUR)
        except BaseException as error:  # noqa: BLE001, PERF203
            print(f"ignored {error!r}")  # noqa: T201


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # the descriptor of the listing itself
        return ""


def act() -> Any:
    """Run one attempt."""
    action = next_action()
    record("start")
    result = perform(action)
    record("end")
    return result


with DAG("scripted", schedule=None, params={"ledger": os.devnull}) as scripted:
    one = task(task_id="one")(act)()
    two = task(task_id="two")(act)()
    one >> two
    task(task_id="retried", retries=2, retry_delay=timedelta(milliseconds=50))(act)()
    task(task_id="limited", execution_timeout=timedelta(seconds=1))(act)()
    task(task_id="gpu", queue="gpu")(act)()
    task(task_id="pooled", pool="small")(act)()
    BashOperator(task_id="bash", bash_command="echo $$ >> {{ params.pids }}; {{ params.command }}")
    BashOperator(
        task_id="bash_limited",
        bash_command="echo $$ >> {{ params.pids }}; {{ params.command }}",
        execution_timeout=timedelta(seconds=1),
    )
