"""The rule by which a task follows from its upstream tasks."""

from enum import StrEnum

from turnout.tasks.errors import DagError

#: Rules of Airflow that do not exist here yet.
_NOT_YET = frozenset(
    {
        "all_done",
        "all_done_min_one_success",
        "all_done_setup_success",
        "all_failed",
        "all_skipped",
        "always",
        "none_failed",
        "none_failed_min_one_success",
        "none_skipped",
        "one_done",
        "one_failed",
        "one_success",
    }
)


class TriggerRule(StrEnum):
    """When a task may run, given how its upstream tasks ended."""

    ALL_SUCCESS = "all_success"


def check_trigger_rule(value: object) -> TriggerRule:
    """Return the trigger rule of a name.

    Raises:
        DagError: there is no such rule, or not yet.
    """
    if str(value) in _NOT_YET:
        raise DagError(f"trigger_rule {value!r} is not supported yet: use 'all_success'.")
    try:
        return TriggerRule(str(value))
    except ValueError:
        raise DagError(f"trigger_rule {value!r} does not exist: use 'all_success'.") from None
