"""Secrets in texts for people."""

import json

import pytest

from turnout.config.masking import Masker
from turnout.config.urls import passwords_in


def test_each_secret_is_masked_the_longest_first() -> None:
    masker = Masker(["abc", "abcdef"])
    assert masker.mask("abcdef and abc and ab") == "*** and *** and ab"


def test_a_secret_of_several_lines_is_masked_line_by_line() -> None:
    masker = Masker(["-----BEGIN\nMIIE\n\n"])
    assert masker.mask("-----BEGIN\nMIIE\n") == "***\n***\n"
    assert masker.mask("-----BEGIN MIIE") == "*** ***"


@pytest.mark.parametrize("written", [json.dumps, repr, lambda secret: json.dumps(secret, ensure_ascii=False)])
def test_a_secret_is_known_also_as_code_writes_it(written: object) -> None:
    assert callable(written)
    secret = 'a"b\\c\td\u00e9'
    assert "***" in Masker([secret]).mask(f"it is {written(secret)}")


def test_what_would_be_found_everywhere_is_no_secret() -> None:
    masker = Masker(["", "a", " \n"])
    assert not masker
    assert masker.mask("a cat") == "a cat"


@pytest.mark.parametrize(
    ("url", "passwords"),
    [
        ("postgresql://ada:p%40ss@db/turnout", {"p%40ss", "p@ss"}),
        ("redis://:secret@broker/0", {"secret"}),
        ("postgresql:///turnout?password=secret", {"secret"}),
        ("postgresql://ada@db/turnout", set()),
    ],
)
def test_passwords_are_found_in_urls(url: str, passwords: set[str]) -> None:
    assert set(passwords_in(url)) == passwords
