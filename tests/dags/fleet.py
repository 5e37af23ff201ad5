"""Two hundred tasks over three queues and two pools, in five layers of which each waits for the one before."""

import os

from actions import act

from turnout.tasks import DAG, EmptyOperator, task

QUEUES = ("default", "io", "gpu")
LAYERS, WIDTH = 5, 40

with DAG("fleet", schedule=None, params={"ledger": os.devnull}):
    joint = None
    for layer in range(LAYERS):
        tasks = [
            task(
                task_id=f"t{layer}_{number}",
                queue=QUEUES[number % 3],
                pool="small" if number % 2 else "default_pool",
                pool_slots=1 + number % 4 // 3,
                retries=1,
            )(act)()
            for number in range(WIDTH)
        ]
        if joint is not None:
            joint >> tasks
        joint = EmptyOperator(task_id=f"joint{layer}")
        tasks >> joint
