"""The control of the tests of this room, the real broker, and a database that can be away."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine, make_url

from tests.conftest import Servers
from tests.control import Control
from turnout.config.settings import SchedulerSettings, Settings
from turnout.executor.publisher import CeleryBroker

Away = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def control(engine: Engine) -> Control:
    return Control(engine)


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path) -> Settings:
    """Settings whose timers never come due in a test, unless it says so."""
    return Settings(
        home=tmp_path,
        database_url=SecretStr(database_url),
        broker_url=SecretStr(broker_url),
        scheduler=SchedulerSettings(repair_interval_s=3600, sweep_interval_s=3600),
    )


@pytest.fixture
def broker(settings: Settings) -> Iterator[CeleryBroker]:
    broker = CeleryBroker(settings)
    yield broker
    broker.close()


@pytest.fixture
def database_away(servers: Servers, database_url: str) -> Away:
    """Make the test's database end its connections and refuse new ones, for a while."""
    name = make_url(database_url).database

    @contextmanager
    def away() -> Iterator[None]:
        servers.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false", _END_ALL.format(name))
        try:
            yield
        finally:
            servers.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    return away


_END_ALL = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{}'"
