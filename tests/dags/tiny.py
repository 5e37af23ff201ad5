"""Sixty tasks that do next to nothing, over six pools and with every limit there is."""

import os

from actions import record

from turnout.tasks import DAG, task

WIDTH, LAYERS = 12, 5


def touch() -> None:
    """Say that it runs."""
    record("start")
    record("end")


def pool(number: int) -> str | dict[str, int]:
    """Choose one pool; for every fifth task two at the same time."""
    one, other = number % 6, (number + 1) % 6
    return {f"p{one}": 1, f"p{other}": 1} if number % 5 == 0 else f"p{one}"


with DAG("tiny", schedule=None, params={"ledger": os.devnull}, max_active_runs=3, max_active_tasks=5):
    above = None
    for layer in range(LAYERS):
        tasks = [
            task(
                task_id=f"t{layer}_{number}",
                pool=pool(number),
                max_active_tis_per_dag=2 if number % 4 == 1 else None,
                max_active_tis_per_dagrun=1 if number % 4 == 2 else None,
                priority_weight=number % 3 + 1,
            )(touch)()
            for number in range(WIDTH)
        ]
        if above is not None:
            for before, after in zip(above, tasks, strict=True):
                before >> after
        above = tasks
