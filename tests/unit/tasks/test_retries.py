from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.tasks.retries import LONGEST_DELAY_S, retry_delay_s

ATTEMPT = UUID("0193a6e0-0000-7000-8000-00000000002a")


def spec(delay: float, multiplier: float = 0.0, longest: float | None = None) -> dict[str, Any]:
    return {"retry_delay_s": delay, "retry_exponential_backoff": multiplier, "max_retry_delay_s": longest}


@pytest.mark.parametrize("failures", [1, 2, 50])
def test_without_multiplier_the_delay_stays_the_same(failures: int) -> None:
    assert retry_delay_s(spec(12.5), failures, ATTEMPT) == 12.5
    assert retry_delay_s(spec(12.5, multiplier=1.0), failures, ATTEMPT) == 12.5


@given(st.integers(1, 12), st.uuids())
def test_with_a_multiplier_it_grows_and_is_spread_up_to_twice(failures: int, attempt_id: UUID) -> None:
    least = 10 * 2 ** (failures - 1)
    delay = retry_delay_s(spec(10, 2.0), failures, attempt_id)
    assert min(least, LONGEST_DELAY_S) <= delay < 2 * least


def test_the_same_attempt_always_waits_as_long_and_others_wait_otherwise() -> None:
    assert retry_delay_s(spec(60, 2.0), 1, ATTEMPT) == 60 + ATTEMPT.int % 60
    assert len({retry_delay_s(spec(60, 2.0), 1, UUID(int=number)) for number in range(60)}) == 60


def test_the_longest_delay_is_never_passed() -> None:
    assert retry_delay_s(spec(60, 2.0, longest=90), 8, ATTEMPT) == 90
    assert retry_delay_s(spec(60, 2.0), 5000, ATTEMPT) == LONGEST_DELAY_S
    assert retry_delay_s(spec(60, 1e300), 3, ATTEMPT) == LONGEST_DELAY_S


def test_a_delay_of_zero_grows_from_one_second() -> None:
    assert retry_delay_s(spec(0), 3, ATTEMPT) == 0
    assert retry_delay_s(spec(0, 2.0), 3, ATTEMPT) == 1
