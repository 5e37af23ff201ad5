"""One DAG whose tasks do what the run's conf says, for every test in which something goes wrong.

    conf = {"ledger": "/path", "script": {"one": ["fail", "succeed"], "*": ["succeed"]}}

Each task has a list of actions (see actions.py), one for each attempt; the last is repeated.
"""

import os
from datetime import timedelta

from actions import act

from turnout.tasks import DAG, BashOperator, task

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
