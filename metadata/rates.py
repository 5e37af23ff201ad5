"""The rates of pools: how many attempts have started in them of late, and how many more may.

What is read here holds only while the pool's row is locked, as for its slots.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, text

from turnout.metadata.queueing import LockedPool


@dataclass(frozen=True)
class RateRoom:
    """How many starts the rate of a pool leaves now, and after how many seconds there will be more."""

    starts: int
    more_in_s: float


_RATE_ROOM = text("""
    SELECT p.name, p.rate_starts - COALESCE(sum(s.starts), 0) AS starts,
           COALESCE(extract(epoch FROM min(s.at) - clock_timestamp()), 0) + p.rate_period_s AS more_in_s
    FROM pool p LEFT JOIN pool_start s
         ON s.pool = p.name AND s.at > clock_timestamp() - make_interval(secs => p.rate_period_s)
    WHERE p.name = ANY(:pools)
    GROUP BY p.name
""")

_NOTE_STARTS = text("""
    WITH over AS (
        DELETE FROM pool_start s USING pool p
        WHERE s.pool = ANY(:pools) AND p.name = s.pool
          AND s.at <= clock_timestamp() - make_interval(secs => COALESCE(p.rate_period_s, 0))
    )
    INSERT INTO pool_start (pool, starts, at)
    SELECT n.pool, n.starts, clock_timestamp()
    FROM unnest(CAST(:pools AS text[]), CAST(:starts AS int[])) AS n (pool, starts)
""")


def read_rate_room(connection: Connection, pools: Iterable[LockedPool]) -> dict[str, RateRoom]:
    """Read what the rates of locked pools leave; pools without a rate are left out."""
    names = [pool.name for pool in pools if pool.has_rate]
    if not names:
        return {}
    rows = connection.execute(_RATE_ROOM, {"pools": names})
    return {row.name: RateRoom(int(row.starts), max(0.0, float(row.more_in_s))) for row in rows}


def note_starts(connection: Connection, starts: Mapping[str, int]) -> None:
    """Record starts in pools that have a rate, and forget those that count no longer."""
    if starts:
        connection.execute(_NOTE_STARTS, {"pools": list(starts), "starts": list(starts.values())})
