"""The names of DAGs, tasks, pools and queues: Airflow's key rule, in ASCII."""

import re

from turnout.tasks.errors import DagError

#: As in Airflow, where ids are columns of 250 characters.
MAX_LENGTH = 250

_KEY = re.compile(r"[A-Za-z0-9_.-]+")


def check_key(value: object, what: str) -> str:
    """Return a name that may be used as an id.

    Args:
        value: the name.
        what: what it names, for the message, for example `dag_id`.

    Raises:
        DagError: it is no such name.
    """
    if not isinstance(value, str):
        raise DagError(f"{what} must be a text, not {value!r}.")
    if len(value) > MAX_LENGTH:
        raise DagError(f"{what} {value[:40]!r}… has {len(value)} characters: at most {MAX_LENGTH} are allowed.")
    if not _KEY.fullmatch(value):
        raise DagError(
            f"{what} {value!r} may hold only letters, digits, dots, dashes and underscores (A-Z a-z 0-9 . - _): "
            "rename it."
        )
    return value
