"""Tasks that do nothing, side by side."""

from turnout.tasks import DAG, task

WIDTH = 1000


def nothing() -> None:
    """Do nothing."""


with DAG("noop", schedule=None, max_active_tasks=WIDTH, is_paused_upon_creation=False):
    for number in range(WIDTH):
        task(task_id=f"t{number}")(nothing)()
