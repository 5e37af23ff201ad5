"""How numbers, times and lists are said."""

import pytest

from turnout.metadata.listings.spoken import counted, duration, listed


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-3, "0 s"), (0.4, "0 s"), (90, "90 s"), (119.6, "2 min"), (7199.9, "2 h"), (90_000, "25 h"), (200_000, "2 d")],
)
def test_a_duration_is_said_to_one_unit(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_things_are_counted_in_the_singular_and_the_plural() -> None:
    assert [counted(1, "task"), counted(1234, "task")] == ["1 task", "1,234 tasks"]


def test_a_long_list_says_how_much_it_leaves_out() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(["a", "b", "c", "d"]) == "a, b, c and 1 more"
    assert listed(["a", "b", "c"], 1003) == "a, b, c and 1,000 more"
