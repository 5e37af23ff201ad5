"""When a cron expression fires, in real time, on every night of the year.

croniter only matches wall clocks here; what a wall clock means in a time zone is decided in `_fires`, by the rule of
cron(8): a job at a fixed time of the day runs exactly once, on change-over nights too; a job with a `*` in its minute
or hour runs whenever the wall clock matches, so that it keeps its rhythm.
"""

import functools
import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

from turnout.tasks.errors import DagError
from turnout.tasks.values import check_type
from turnout.tasks.zones import zone_name, zone_of

if TYPE_CHECKING:
    from croniter import croniter

#: Airflow's presets, which are cron's.
PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

#: More than the longest jump a wall clock ever made (Samoa left out 30 December 2011).
_LONGEST_JUMP = timedelta(hours=26)
_LETTERS = re.compile(r"[A-Za-z]+")
_NAME = re.compile(r"(sun|mon|tue|wed|thu|fri|sat|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|l)", re.IGNORECASE)
_FIELDS = (5, 6)


class CronClock:
    """The moments at which a cron expression fires in a time zone; all in UTC."""

    def __init__(self, expression: str, timezone: str | tzinfo) -> None:
        check_type(expression, str, "The cron expression")
        self.expression = PRESETS.get(expression.strip().lower(), " ".join(expression.split()))
        self.timezone = timezone if isinstance(timezone, str) else zone_name(timezone)
        self._zone: tzinfo = zone_of(self.timezone)
        self._keeps_rhythm = _check(self.expression)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CronClock) and (self.expression, self.timezone) == (other.expression, other.timezone)

    def __hash__(self) -> int:
        return hash((self.expression, self.timezone))

    @functools.cached_property
    def _wall_clock(self) -> "croniter":
        return _parse(self.expression)

    def first_after(self, moment: datetime) -> datetime:
        """Return the first time it fires later than a moment."""
        return _first_after(self, moment)

    def last_before(self, moment: datetime) -> datetime:
        """Return the last time it fired earlier than a moment."""
        return _last_before(self, moment)

    def find_first_after(self, moment: datetime) -> datetime:
        """Compute what `first_after` remembers."""
        walls = self._walls(moment + min(self._offsets(moment)))
        best: datetime | None = None
        while True:
            wall = walls.get_next(datetime)
            if best is not None and wall > _naive(best) + max(self._offsets(best)):
                return best
            later = (fire for fire in self._fires(wall) if fire > moment)
            best = min((*later, best) if best is not None else later, default=None)

    def find_last_before(self, moment: datetime) -> datetime:
        """Compute what `last_before` remembers."""
        walls = self._walls(moment + min(self._offsets(moment)))
        fire: datetime | None = None
        while fire is None:
            fire = min(self._fires(walls.get_prev(datetime)), default=None)
        while (later := self.first_after(fire)) < moment:
            fire = later
        return fire

    def last_until(self, moment: datetime) -> datetime:
        """Return the last time it fired, this moment included."""
        return self.last_before(moment + timedelta.resolution)

    def first_from(self, moment: datetime) -> datetime:
        """Return the first time it fires, this moment included."""
        return self.first_after(moment - timedelta.resolution)

    def _fires(self, wall: datetime) -> list[datetime]:
        """Tell what a time on the wall means: no moment, one, or two."""
        earlier, later = (wall.replace(tzinfo=self._zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if not self._keeps_rhythm:
            # The first of two; where the clock jumps over it, as much later as the clock jumps (as in Airflow).
            return [earlier]
        return sorted({fire for fire in (earlier, later) if self._reads(fire) == wall})

    def _reads(self, moment: datetime) -> datetime:
        return moment.astimezone(self._zone).replace(tzinfo=None, fold=0)

    def _offsets(self, moment: datetime) -> list[timedelta]:
        """Return how far the wall clock is from UTC around a moment."""
        around = (moment + step for step in (-_LONGEST_JUMP, timedelta(), _LONGEST_JUMP))
        return [near.astimezone(self._zone).utcoffset() or timedelta() for near in around]

    def _walls(self, start: datetime) -> "croniter":
        self._wall_clock.set_current(_naive(start), force=True)
        return self._wall_clock


#: A thousand `@daily` DAGs that are due at midnight all ask the same; only the first of them has to look it up.
_MOST_REMEMBERED = 2048


@functools.lru_cache(_MOST_REMEMBERED)
def _first_after(clock: CronClock, moment: datetime) -> datetime:
    return clock.find_first_after(moment)


@functools.lru_cache(_MOST_REMEMBERED)
def _last_before(clock: CronClock, moment: datetime) -> datetime:
    return clock.find_last_before(moment)


@functools.lru_cache(_MOST_REMEMBERED)
def _check(expression: str) -> bool:
    """Refuse an expression that is none; return whether it keeps its rhythm."""
    return _keeps_rhythm(expression, _parse(expression))


def _parse(expression: str) -> "croniter":
    from croniter import croniter  # noqa: PLC0415 - 25 ms that a file without cron need not pay

    if expression.startswith("@"):
        raise DagError(f"There is no schedule preset {expression!r}: use {', '.join(['@once', *PRESETS])}.")
    unknown = [word for word in _LETTERS.findall(expression) if not _NAME.fullmatch(word)]
    if len(expression.split()) not in _FIELDS or unknown:
        raise DagError(_refusal(expression, "it needs five fields: minute hour day-of-month month day-of-week"))
    try:
        clock = croniter(expression, datetime(2000, 1, 1))  # noqa: DTZ001 - a wall clock
        clock.get_next(datetime)
    except ValueError as error:
        raise DagError(_refusal(expression, str(error))) from None
    return clock


def _refusal(expression: str, reason: str) -> str:
    return f'The cron expression {expression!r} is not valid ({reason}): write one such as "0 6 * * *" or "@daily".'


def _keeps_rhythm(expression: str, clock: "croniter") -> bool:
    minute_and_hour = zip(expression.split()[:2], clock.expanded[:2], strict=True)
    return any(text.startswith("*") or values == ["*"] for text, values in minute_and_hour)


def _naive(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None)
