"""Two tasks, one after the other, that do what the run's conf says (see scripted.py)."""

import os
from datetime import timedelta

from actions import act

from turnout.tasks import DAG, task

with DAG("pair", schedule=None, params={"ledger": os.devnull}) as pair:
    one = task(task_id="one", retries=1, retry_delay=timedelta(milliseconds=50))(act)()
    two = task(task_id="two")(act)()
    one >> two
