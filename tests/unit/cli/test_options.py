"""What stands on the command line."""

import pytest
import typer

from turnout.cli.options import moment


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+05:00"])
def test_a_moment_beyond_the_calendar_is_refused_in_words(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="in UTC beyond the years 1 to 9999"):
        moment(text)
