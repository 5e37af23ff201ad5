"""The platform as a fixture."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine

from tests.platform import Platform
from turnout.config.settings import Settings


@pytest.fixture
def platform(engine: Engine, database_url: str, broker_url: str, tmp_path: Path) -> Iterator[Platform]:
    settings = Settings(home=tmp_path, database_url=SecretStr(database_url), broker_url=SecretStr(broker_url))
    platform = Platform(engine, settings, tmp_path)
    yield platform
    platform.stop_all()
