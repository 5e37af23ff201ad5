import pytest

from turnout.config.urls import without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:secret@db:5432/turnout", "postgresql://ada:***@db:5432/turnout"),
        ("postgresql://ada:se:c@ret@db/turnout", "postgresql://ada:***@db/turnout"),
        ("redis://:secret@broker:6379/0", "redis://:***@broker:6379/0"),
        (
            "postgresql://db/turnout?password=secret&sslmode=require",
            "postgresql://db/turnout?password=***&sslmode=require",
        ),
        ("postgresql://db/turnout?user=ada&password=secret", "postgresql://db/turnout?user=ada&password=***"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada@db:5432/turnout",
        "redis://broker:6379/0",
        "redis+socket:///home/a:b@c/valkey.sock",
        "valkey://h",
    ],
)
def test_a_url_without_a_password_stays_as_it_is(url: str) -> None:
    assert without_password(url) == url
