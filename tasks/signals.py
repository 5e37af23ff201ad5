"""What the author of a task raises to steer it, and what Turnout raises inside a task that is to end."""


class TaskSkipped(Exception):  # noqa: N818 - a way to end, not a fault
    """Raise it in a task to end the task as skipped; its downstream tasks are skipped with it."""


class TaskFailed(Exception):  # noqa: N818 - a way to end, named like its state
    """Raise it in a task to fail the task now, whatever retries it has left."""


class TaskTimeout(BaseException):
    """The task has run longer than its `execution_timeout`.

    Not an `Exception`, so that a task's `except Exception` does not swallow it (as in Airflow 3).
    """


class TaskStopped(SystemExit):
    """The attempt is to end now, because its worker or a person says so."""
