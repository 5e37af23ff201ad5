"""The sequential workflow of the public workflow-engine benchmark: forty times fibo(10), one after the other."""

from turnout.tasks import DAG, chain, task

LENGTH, DEPTH = 40, 10


def fibo(n: int) -> int:
    """Compute a Fibonacci number the slow way."""
    return n if n < 2 else fibo(n - 1) + fibo(n - 2)  # noqa: PLR2004  its definition


with DAG("fibonacci", schedule=None, is_paused_upon_creation=False):
    chain(*(task(task_id=f"t{number}")(lambda: fibo(DEPTH))() for number in range(LENGTH)))
