"""Attempt ids sort by the time of their making."""

import time
from uuid import RFC_4122

import pytest

from turnout.metadata.identity import new_attempt_id


def test_an_attempt_id_is_a_uuid_of_version_seven() -> None:
    made = new_attempt_id()
    assert (made.version, made.variant) == (7, RFC_4122)
    assert abs((made.int >> 80) - time.time_ns() // 1_000_000) < 60_000


def test_ids_made_in_one_instant_differ() -> None:
    assert len({new_attempt_id() for _ in range(10_000)}) == 10_000


def test_a_later_id_is_greater(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(range(0, 2**47, 2**40))
    monkeypatch.setattr(time, "time_ns", lambda: next(moments) * 1_000_000)
    made = [new_attempt_id() for _ in range(100)]
    assert made == sorted(made)
