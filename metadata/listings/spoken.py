"""How numbers, times and lists are said in a sentence."""

from collections.abc import Sequence

from turnout.metadata.states import TaskState

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
#: Two of the larger unit are said in that unit: 90 s, but 2 min.
_AT_LEAST = 2


def in_state(state: str) -> str:
    """Say in which state something is: a task instance that nobody has touched has none."""
    return "has not begun" if state == TaskState.NONE else f"is {state}"


def duration(seconds: float) -> str:
    """Say how long something takes, to one unit."""
    for size, unit in _UNITS:
        if round(seconds) >= size * _AT_LEAST:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def counted(number: int, thing: str, things: str | None = None) -> str:
    """Say how many things there are."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def listed(names: Sequence[str], total: int | None = None, most: int = 3) -> str:
    """List the first few names, and say how many more there are."""
    shown = ", ".join(names[:most])
    more = (len(names) if total is None else total) - min(len(names), most)
    return f"{shown} and {more:,} more" if more > 0 else shown
