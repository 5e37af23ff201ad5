"""Options that several commands share."""

import inspect
from dataclasses import dataclass

import pytest

from turnout.cli.spreading import spread


@dataclass(frozen=True)
class Place:
    """A group of options."""

    town: str
    platform: int = 1


def test_the_fields_of_a_group_stand_where_the_group_stood() -> None:
    said = []

    @spread
    def command(train: str, place: Place, *, late: bool = False) -> None:
        """Say where a train is."""
        said.append((train, place, late))

    assert [str(each) for each in inspect.signature(command).parameters.values()] == [
        "train: str",
        "town: str",
        "platform: int = 1",
        "late: bool = False",
    ]
    assert command.__doc__ == "Say where a train is."
    command(train="ICE 1", town="Bern", platform=4, late=True)
    assert said == [("ICE 1", Place("Bern", 4), True)]


def test_an_argument_that_no_group_has_is_refused() -> None:
    @spread
    def command(place: Place) -> None:
        """Go there."""
        raise AssertionError(place)

    with pytest.raises(TypeError, match="unexpected keyword argument 'gate'"):
        command(town="Bern", platform=1, gate=2)
