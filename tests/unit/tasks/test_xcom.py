import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.tasks.errors import XComError
from turnout.tasks.xcom import encode

CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda children: (
        st.lists(children)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), children)
    ),
)


@given(JSON)
def test_json_values_arrive_as_they_were(value: Any) -> None:
    assert json.loads(encode(value)) == value


def nested(depth: int) -> list[Any]:
    whole: list[Any] = []
    for _ in range(depth):
        whole = [whole]
    return whole


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "The result is object, which JSON cannot hold: use JSON values"),
        ({"when": [datetime.now(UTC)]}, r"The result\['when'\]\[0\] is datetime"),
        ([1, {2, 3}], r"The result\[1\] is set"),
        ({"mean": float("nan")}, r"The result\['mean'\] is nan"),
        ({(1, 2): 3}, r"The result has the key \(1, 2\)"),
        (CIRCLE, r"The result\[0\] contains itself"),
        (["a\x00b"], r"The result\[0\] contains the character NUL, which PostgreSQL cannot hold"),
        ({"a\x00": 1}, "A key of the result contains the character NUL"),
        ("\ud800", "The result contains half of a surrogate pair"),
        (b"bytes", "The result is bytes"),
        pytest.param(10**5000, "The result is int, which JSON cannot hold", id="an integer too long to print"),
        (nested(5000), "The result is nested too deeply"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(value: Any, words: str) -> None:
    with pytest.raises(XComError, match=words):
        encode(value)


def test_a_backslash_before_u0000_is_no_nul() -> None:
    assert json.loads(encode("\\u0000")) == "\\u0000"


def test_the_limit_is_in_bytes_of_utf8() -> None:
    assert encode("é", max_bytes=4) == '"é"'
    with pytest.raises(XComError, match="4 bytes as JSON, over the limit of 3"):
        encode("é", max_bytes=3)
