"""`mask_secret`."""

import logging
from typing import Any

import pytest

from turnout.config.masking import Masker
from turnout.tasks import mask_secret, masking


@pytest.fixture(autouse=True)
def masker(monkeypatch: pytest.MonkeyPatch) -> Masker:
    masker = Masker()
    monkeypatch.setattr(masking, "process_masker", masker)
    return masker


@pytest.mark.parametrize(
    "secret", ["hunter2", b"hunter2", {"login": "hunter2"}, [None, ("x" * 9, "hunter2")], {"deep": {"er": ["hunter2"]}}]
)
def test_values_and_collections_of_them_are_masked(secret: Any, masker: Masker) -> None:
    mask_secret(secret)
    assert masker.mask("it is hunter2") == "it is ***"


def test_a_number_is_masked_as_it_is_written(masker: Masker) -> None:
    mask_secret(271828)
    assert masker.mask("e271828") == "e***"


def test_a_secret_that_is_too_short_is_not_masked_and_that_is_said(
    masker: Masker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        mask_secret("ab")
    assert not masker
    assert "fewer than 3 characters" in caplog.text
