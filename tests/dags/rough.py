"""Tasks of every kind, over three queues and three pools, with limits of each sort: the work of the chaos test."""

import os
from datetime import timedelta

from actions import act

from turnout.tasks import DAG, BashOperator, EmptyOperator, task

QUEUES = ("default", "io", "gpu")
POOLS = ("default_pool", "p0", "p1")
LAYERS, WIDTH = 3, 12

with DAG(
    "rough",
    schedule=None,
    params={"ledger": os.devnull},
    max_active_runs=3,
    max_active_tasks=8,
    default_args={"retries": 2, "retry_delay": timedelta(milliseconds=50)},
):
    joint = None
    for layer in range(LAYERS):
        tasks = [
            task(
                task_id=f"t{layer}_{number}",
                queue=QUEUES[number % 3],
                pool=POOLS[number % 4 % 3],
                max_active_tis_per_dag=2 if number == 5 else None,
                execution_timeout=timedelta(seconds=1) if number == 7 else None,
            )(act)()
            for number in range(WIDTH)
        ]
        tasks.append(
            BashOperator(
                task_id=f"bash{layer}", bash_command="sleep 3600 > /dev/null 2>&1 & sleep 0.1", queue=QUEUES[layer]
            )
        )
        if joint is not None:
            joint >> tasks
        joint = EmptyOperator(task_id=f"joint{layer}")
        tasks >> joint
