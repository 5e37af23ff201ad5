"""Tasks with limits and surroundings of their own."""

import os
from datetime import timedelta

from actions import act

from turnout.tasks import DAG, BashOperator, task

HOG = "import time; held = b'x' * (400 << 20); time.sleep(3600)"

with DAG("limited", schedule=None, params={"ledger": os.devnull}) as limited:
    task(task_id="memory", memory_limit_mb=250, retries=1, retry_delay=timedelta(milliseconds=1))(act)()
    task(task_id="cpu", cpu_time_limit=timedelta(seconds=1))(act)()
    task(task_id="plain")(act)()
    task(task_id="own", env={"OWN_DAY": "{{ run_id }}", "OWN_B": "b"}, cwd="{{ params.folder }}")(act)()
    BashOperator(task_id="bash_memory", bash_command=f'python3 -c "{HOG}" & wait', memory_limit_mb=250)
    BashOperator(task_id="bash_cpu", bash_command="(while :; do :; done) & wait", cpu_time_limit=1)
    BashOperator(
        task_id="bash_own",
        bash_command="pwd; echo $OWN_A",
        env={"OWN_A": "a"},
        append_env=True,
        cwd="{{ params.folder }}",
    )
