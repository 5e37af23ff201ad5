"""DAGs whose runs end before their tasks do."""

import os
from datetime import timedelta

from actions import act

from turnout.tasks import DAG, setup, task, teardown

with DAG("fragile", schedule=None, params={"ledger": os.devnull}, fail_fast=True):
    prepare = setup(task(task_id="prepare")(act))()
    work = [task(task_id=name)(act)() for name in ("bad", "long")]
    clean_up = teardown(setups=prepare)(task(task_id="clean_up")(act))()
    prepare >> work >> clean_up

with DAG("hasty", schedule=None, params={"ledger": os.devnull}, dagrun_timeout=timedelta(seconds=3)):
    task(task_id="long")(act)()
