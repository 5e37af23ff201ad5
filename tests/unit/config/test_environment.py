"""Settings from the environment."""

import pytest

from turnout.config.errors import SettingsError
from turnout.config.settings import load_settings


def test_a_path_of_bytes_that_are_no_text_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match=r"^TURNOUT_HOME holds bytes that are no UTF-8: '/data/\\udcff'"):
        load_settings({"TURNOUT_HOME": "/data/\udcff"})
