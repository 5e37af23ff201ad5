from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest

from turnout.tasks.errors import DagError
from turnout.tasks.zones import as_utc, zone_name, zone_of


class Nameless(tzinfo):
    """An hour before UTC by no rule that has a name."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None if moment is None else timedelta(hours=1)

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None if moment is None else timedelta(0)

    def tzname(self, moment: datetime | None) -> str | None:  # noqa: ARG002
        return None


class Pytz(Nameless):
    """As pytz names its zones."""

    zone = "Europe/Paris"


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        (None, "UTC"),
        (UTC, "UTC"),
        (ZoneInfo("Europe/Berlin"), "Europe/Berlin"),
        (timezone(timedelta(hours=5, minutes=30)), "+05:30"),
        (timezone(timedelta(hours=-3)), "-03:00"),
        (Pytz(), "Europe/Paris"),
    ],
)
def test_a_zone_is_found_again_by_its_name(zone: tzinfo | None, name: str) -> None:
    assert zone_name(zone) == name
    moment = datetime(2024, 7, 1, tzinfo=UTC)
    if not isinstance(zone, Pytz):
        assert moment.astimezone(zone_of(name)).utcoffset() == moment.astimezone(zone or UTC).utcoffset()


def test_a_zone_that_no_other_process_could_find_is_refused() -> None:
    with pytest.raises(DagError, match="has no name: use zoneinfo"):
        zone_name(Nameless())
    with pytest.raises(DagError, match="There is no time zone 'Mars/Phobos'"):
        zone_of("Mars/Phobos")
    with pytest.raises(DagError, match=r"There is no time zone '\.\./etc/passwd'"):
        zone_of("../etc/passwd")


def test_a_naive_moment_is_utc() -> None:
    assert as_utc(datetime(2013, 1, 1)) == datetime(2013, 1, 1, tzinfo=UTC)  # noqa: DTZ001
    assert as_utc(datetime(2013, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))).hour == 15
