"""A DAG that has callbacks for everything; each writes into the ledger what it was told, and does as the script says.

conf = {"ledger": "/path", "script": {"one": ["fail"]}, "callbacks": {"failure": "hang"}}
"""

import json
import os
import time
from datetime import timedelta
from typing import Any

from actions import act, perform, turnout_environ

from turnout.tasks import DAG, Context, EmptyOperator, get_current_context, task


def tell(event: str, context: Context) -> None:
    """Write down a call, and do what the script says."""
    ti, run = context.get("ti"), context["dag_run"]
    subject = run if ti is None else ti
    line: dict[str, Any] = {
        "event": f"on_{event}",
        "task_id": None if ti is None else ti.task_id,
        "try_number": None if ti is None else ti.try_number,
        "run_id": run.run_id,
        "state": subject.state,
        "has_ended": subject.end_date is not None,
        "exception": context.get("exception"),
        "current": get_current_context()["run_id"],
        "environ": turnout_environ(""),
        "pid": os.getpid(),
        "time": time.time(),
    }
    if "pull" in context["params"]:
        line["pulled"] = ti.xcom_pull(task_ids=context["params"]["pull"])
    fd = os.open(context["params"]["ledger"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(fd, (json.dumps(line) + "\n").encode())
    os.close(fd)
    print(f"told of {event}")  # noqa: T201
    perform(context["params"].get("callbacks", {}).get(event, "succeed"))


def on(event: str) -> Any:
    """Make the callback for an event."""
    return lambda context: tell(event, context)


EVERY: dict[str, Any] = {
    f"on_{event}_callback": on(event) for event in ("execute", "failure", "retry", "skipped", "success")
}

with DAG(
    "called",
    schedule=None,
    params={"ledger": os.devnull},
    default_args=EVERY,
    on_success_callback=on("success"),
    on_failure_callback=[on("failure"), on("failure_too")],
) as called:
    task(task_id="one")(act)()
    task(task_id="retried", retries=2, retry_delay=timedelta(milliseconds=50))(act)()
    task(task_id="silent", **dict.fromkeys(EVERY))(act)()  # type: ignore[misc]
    EmptyOperator(task_id="empty")
