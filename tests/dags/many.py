"""A wide DAG of tasks that do nothing, for counting how fast they go."""

from turnout.tasks import DAG, task

WIDTH = 500


def nothing() -> None:
    """Do nothing."""


with DAG("many", schedule=None):
    for number in range(WIDTH):
        task(task_id=f"t{number}")(nothing)()
