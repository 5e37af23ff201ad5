"""A wide DAG of short tasks that write the ledger, none of which is tried again: a fleet must not fail one."""

import os

from actions import act

from turnout.tasks import DAG, task

WIDTH = 60

with DAG("short", schedule=None, params={"ledger": os.devnull}, max_active_tasks=WIDTH):
    for number in range(WIDTH):
        task(task_id=f"t{number}")(act)()
