"""The control of the tests of this room."""

import pytest
from sqlalchemy import Engine

from tests.control import Control


@pytest.fixture
def control(engine: Engine) -> Control:
    return Control(engine)
