"""Tasks that may all run at once, each as the script says: forty in one DAG, two hundred in the other."""

import os

from actions import act

from turnout.tasks import DAG, task

for width in (40, 200):
    with DAG(f"abreast_{width}", schedule=None, params={"ledger": os.devnull}, max_active_tasks=width):
        for number in range(width):
            task(task_id=f"t{number}", pool="wide")(act)()
